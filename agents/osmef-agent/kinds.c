#include "bulk.h"
#include "exchange.h"
#include "exec.h"
#include "kind.h"
#include "pong.h"
#include "siege.h"
#include "sizes.h"
#include "udp.h"

const struct kind *const kinds[] = {&bulk_kind, &exchange_kind, &exec_kind,  &ping_kind, &pong_kind,
                                    &siege_kind, &sizes_kind,   &udp_kind,   NULL};
