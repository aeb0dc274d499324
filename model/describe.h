/* Prints the layers of a network and the types that a precision gives them, as text or as one line
 * of JSON. FLOPs and output shapes are for the forward pass of one image. */
#pragma once

#include "model/graph.h"
#include "model/policy.h"

#include <stdbool.h>
#include <stdio.h>

/* Prints a row for each layer: its output, trained parameters and FLOPs. */
void describe_layers(const struct graph *g, bool json, FILE *out);

/* Prints a row for each layer: the types of weights, gradients, arithmetic and activations. */
void describe_policy(const struct policy *p, const struct graph *g, bool json, FILE *out);

/* Prints a row for each known network. Networks that cannot be built for images this small are
 * omitted. */
void describe_networks(int classes, int image_size, bool json, FILE *out);
