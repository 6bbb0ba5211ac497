#include "bulk.h"
#include "kind.h"
#include "pong.h"
#include "siege.h"
#include "udp.h"

const struct kind *const kinds[] = {&bulk_kind,  &ping_kind, &pong_kind,
                                    &siege_kind, &udp_kind,  NULL};
