/* A network drawn for tests: it takes the ways through lowering that no architecture does.
 *
 * A value with three users, an add that no batch norm absorbs, a ReLU alone, a shortcut in another
 * layout than the main path, dropout in front of a linear layer, pooling with padding, a
 * convolution with bias and ReLU. */
#pragma once

#include "model/graph.h"

enum { CROSSROADS_CLASSES = 7, CROSSROADS_SIZE = 9 };

/* The caller frees it with graph_free(). */
struct graph *crossroads_graph(void);
