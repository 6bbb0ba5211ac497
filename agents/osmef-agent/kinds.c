#include "bulk.h"
#include "kind.h"
#include "udp.h"

const struct kind *const kinds[] = {&bulk_kind, &udp_kind, NULL};
