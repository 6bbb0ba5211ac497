#include "bulk.h"
#include "kind.h"

const struct kind *const kinds[] = {&bulk_kind, NULL};
