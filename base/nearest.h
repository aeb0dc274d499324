/* Finds the word that a user may have meant: the known word with the smallest edit distance
 * to the typed word.
 *
 *     struct nearest near = nearest_to("--epoch");
 *     nearest_offer(&near, "epochs", 6);             for each known word
 *     nearest_say(&near, "--", text, sizeof text);   "; did you mean --epochs?" or "" */
#pragma once

#include <stddef.h>

enum { NEAREST_MAX = 48 }; /* bytes of a word that are compared */

struct nearest {
    char text[NEAREST_MAX];
    char best[NEAREST_MAX]; /* "": none is near */
    int edits;              /* number of edits from `text` to `best` */
};

/* Begins a search. Ignores leading dashes, the text from "=" on, and case; '_' counts as '-'. */
struct nearest nearest_to(const char *text);

/* Compares a known word of n bytes with the text, and stores the word if it needs fewer edits than
 * each word compared earlier. An edit inserts, deletes or replaces a character, or exchanges two
 * adjacent characters. */
void nearest_offer(struct nearest *near, const char *word, size_t n);

/* Writes "; did you mean WORD?", where WORD is `mark` followed by the best word; writes "" if no
 * word is near. A word is near if at most one edit, or at most one edit per three characters of the
 * text, turns the text into the word. */
void nearest_say(const struct nearest *near, const char *mark, char *out, size_t size);
