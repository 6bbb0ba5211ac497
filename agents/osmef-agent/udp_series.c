/* The series of intervals. */
#include "events.h"
#include "out.h"
#include "tcpinfo.h"
#include "udp.h"

#include <string.h>

static struct {
    int64_t count; /* of deadlines so far */
    int64_t next_ns;
    int64_t last_ns;
    int64_t shown[MAX_FLOWS][UDP_SHOWN];
} series;

static const char *const names[UDP_SHOWN] = {
    "bytes",     "datagrams",  "send_refused", "behind_us", "lost",
    "reordered", "duplicates", "dropped",      "jitter_us",
};

/* The others are counters, of which the interval has its share. */
static bool is_gauge(int which)
{
    return which == UDP_BEHIND_NS || which == UDP_JITTER_NS;
}

static bool applies(enum udp_role role, int which)
{
    if (which <= UDP_DATAGRAMS)
        return true;
    return (role == UDP_SENDER) == (which <= UDP_BEHIND_NS);
}

static int64_t last_deadline_ns(const struct udp *udp)
{
    const struct udp_params *p = &udp->params;
    return udp->start_ns + seconds_ns(p->warmup_s + p->duration_s - p->interval_s / 2);
}

/* Deadlines are absolute, so that they don't drift. None is set within half an interval of the
 * end or behind it: the last interval takes in what remains. */
static void set_deadline(const struct udp *udp)
{
    const int64_t at_ns =
        udp->start_ns + seconds_ns((double)++series.count * udp->params.interval_s);
    series.next_ns = at_ns > last_deadline_ns(udp) ? FOREVER : at_ns;
}

int64_t udp_series_begin(const struct udp *udp)
{
    series.count = 0;
    series.last_ns = udp->start_ns;
    memset(series.shown, 0, sizeof *series.shown * (size_t)udp->count);
    set_deadline(udp);
    return series.next_ns;
}

static void tell_values(const struct udp *udp, int which)
{
    out_format(",\"%s\":", names[which]);
    if (!applies(udp->role, which)) {
        out_format("null");
        return;
    }
    for (int i = 0; i < udp->count; i++) {
        const int64_t total =
            atomic_load_explicit(&udp->flows[i].shown[which], memory_order_relaxed);
        if (total == UNKNOWN)
            out_format("%snull", i ? "," : "[");
        else if (is_gauge(which))
            out_format("%s%.3f", i ? "," : "[", (double)total / 1e3);
        else
            out_format("%s%lld", i ? "," : "[", (long long)(total - series.shown[i][which]));
        series.shown[i][which] = total;
    }
    out_format("]");
}

static void tell_interval(const struct udp *udp, int64_t end_ns)
{
    event_begin(udp->job, "interval");
    out_format(",\"role\":\"%s\",\"start_s\":%.9f,\"length_s\":%.9f",
               udp->role == UDP_SENDER ? "sender" : "receiver",
               ns_seconds(series.last_ns - udp->start_ns), ns_seconds(end_ns - series.last_ns));
    for (int i = 0; i < UDP_SHOWN; i++)
        tell_values(udp, i);
    event_end();
    series.last_ns = end_ns;
}

int64_t udp_series_tick(const struct udp *udp)
{
    const int64_t now = now_ns();
    if (now < series.next_ns)
        return series.next_ns;
    tell_interval(udp, now);
    while (series.next_ns <= now)
        set_deadline(udp);
    return series.next_ns;
}

void udp_series_finish(const struct udp *udp, int64_t end_ns)
{
    /* What is lost is known only now, and a loaded main thread may have looked late. */
    tell_interval(udp, end_ns > series.last_ns ? end_ns : now_ns());
}
