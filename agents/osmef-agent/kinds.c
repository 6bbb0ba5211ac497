#include "bulk.h"
#include "exchange.h"
#include "kind.h"

const struct kind *const kinds[] = {&bulk_kind, &exchange_kind, NULL};
