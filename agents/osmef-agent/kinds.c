#include "bulk.h"
#include "exchange.h"
#include "kind.h"
#include "sizes.h"

const struct kind *const kinds[] = {&bulk_kind, &exchange_kind, &sizes_kind, NULL};
