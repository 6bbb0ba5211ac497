/* NetPIPE's schedule: the sizes of a sweep, and their repetitions. */
#ifndef OSMEF_SIZES_PLAN_H
#define OSMEF_SIZES_PLAN_H

#include <stdint.h>

/* Three for each of the two steps of an octave, and both ends, up to 2^30. */
#define MAX_SIZES 192
#define MAX_REPETITIONS 1000000000ULL

/* Writes the sizes from `min` to `max` in ascending order and returns how many they are: the powers
 * of two and the steps halfway between them, each also `perturbation` bytes smaller and larger
 * where it is closer to that than to its neighbours, and both ends themselves. (Snell, Mikler,
 * Gustafson, "NetPIPE: A Network Protocol Independent Performance Evaluator", 1996.) */
int sizes_plan(uint64_t min, uint64_t max, uint64_t perturbation, uint64_t sizes[MAX_SIZES]);

/* How many repetitions of `each_s` last `wanted_s`. */
uint64_t sizes_repetitions(double wanted_s, double each_s, uint64_t least);

#endif
