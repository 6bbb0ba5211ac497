#include "sizes_plan.h"

#include <stdbool.h>

struct list {
    uint64_t min, max;
    uint64_t *sizes;
    int count;
};

static void add(struct list *list, uint64_t size)
{
    const uint64_t last = list->count > 0 ? list->sizes[list->count - 1] : 0;
    if (size >= list->min && size <= list->max && size > last && list->count < MAX_SIZES)
        list->sizes[list->count++] = size;
}

/* Steps come in pairs of one width, and the next pair is twice as wide, so the previous size may be
 * half a step away; then the size is not perturbed. */
static void add_step(struct list *list, uint64_t size, uint64_t step, uint64_t perturbation)
{
    const bool perturbed = perturbation > 0 && step > 2 * perturbation;
    if (perturbed)
        add(list, size - perturbation);
    add(list, size);
    if (perturbed)
        add(list, size + perturbation);
}

int sizes_plan(uint64_t min, uint64_t max, uint64_t perturbation, uint64_t sizes[MAX_SIZES])
{
    struct list list = {min, max, sizes, 0};
    add(&list, min);
    add_step(&list, 1, 1, perturbation);
    for (uint64_t power = 2; power <= max + perturbation; power *= 2) {
        add_step(&list, power, power / 2, perturbation);
        add_step(&list, power + power / 2, power / 2, perturbation);
    }
    add(&list, max);
    return list.count;
}

uint64_t sizes_repetitions(double wanted_s, double each_s, uint64_t least)
{
    const double fitting = each_s > 0 ? wanted_s / each_s : (double)MAX_REPETITIONS;
    if (fitting >= (double)MAX_REPETITIONS)
        return MAX_REPETITIONS;
    return fitting > (double)least ? (uint64_t)fitting : least;
}
