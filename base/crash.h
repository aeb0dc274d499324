/* Reports crashes of the process. On a machine that can be used for minutes only, nobody attaches a
 * debugger: the log must say where the process was. */
#pragma once

/* From now on, a signal of a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) writes one line and
 * the calls of the thread to stderr before it ends the process. Leaves the handlers of a sanitizer
 * in place. */
void crash_report(void);

/* What a thread executes, for the report of its crash. */
struct crash_note {
    const char *about;   /* written to stderr: "engine 2 of cuDNN" */
    const char *journal; /* path of the file to which `line` is appended; "": none */
    const char *line;    /* ends with a newline */
};

/* Sets the calling thread's note, which must stay valid until it is replaced. NULL: no note. */
void crash_note(const struct crash_note *note);
