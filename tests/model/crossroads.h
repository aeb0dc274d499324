/* A network for tests of lowering. It has structures that no architecture has:
 *
 * A value with three users, an add that no batch norm absorbs, a ReLU alone, a shortcut in another
 * layout than the main path, dropout before a linear layer, pooling with padding, a convolution
 * with bias and ReLU. */
#pragma once

#include "model/graph.h"

enum { CROSSROADS_CLASSES = 7, CROSSROADS_SIZE = 9 };

/* The caller frees it with graph_free(). */
struct graph *crossroads_graph(void);
