"""What agents in memory tell of bulk transfers and of datagrams."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.memory.model import (
    Event,
    distribution,
    endpoint_use,
    histogram,
    process_use,
    tcp_state,
    thread_use,
)
from tests.memory.work import Run

_UDP_SERIES = (
    *("bytes", "datagrams", "send_refused", "behind_us"),
    *("lost", "reordered", "duplicates", "dropped", "jitter_us"),
)
_OF_SENDERS, _OF_BOTH = ("send_refused", "behind_us"), ("bytes", "datagrams")


def cuts(length_s: float, interval_s: float, offset_s: float = 0.0) -> list[float]:
    """Return the ends of intervals before ``length_s``: the last one takes in what remains."""
    found: list[float] = []
    while (at_s := (len(found) + 1) * interval_s) <= length_s - interval_s / 2:
        found.append(at_s)
    return [offset_s + at_s for at_s in found]


@dataclass(frozen=True)
class Flow:
    """A connection that moves data at a rate while it is active."""

    rate_bps: float
    active_s: float
    idle_s: float
    most_bytes: int | None
    length_s: float

    @property
    def end_s(self) -> float:
        """When all is moved, or the time is over."""
        if self.most_bytes is None:
            return self.length_s
        busy_s = 8 * self.most_bytes / self.rate_bps
        pauses = busy_s // self.active_s if self.active_s else 0
        return min(self.length_s, busy_s + pauses * self.idle_s)

    def moved(self, at_s: float) -> int:
        """Return the bytes that were moved until a time."""
        busy_s = min(at_s, self.end_s)
        if self.active_s:
            bursts, rest_s = divmod(busy_s, self.active_s + self.idle_s)
            busy_s = bursts * self.active_s + min(rest_s, self.active_s)
        moved = round(self.rate_bps * busy_s / 8)
        return moved if self.most_bytes is None else min(moved, self.most_bytes)


def bulk_flows(run: Run) -> list[Flow]:
    """Return the connections of a transfer."""
    length_s = run.number("warmup_s") + run.number("duration_s")
    size, pacing_bps = run.command.get("bytes"), run.number("pacing_bps", float("inf"))
    return [
        Flow(
            *(min(rate_bps, pacing_bps), run.number("active_s"), run.number("idle_s")),
            *(size, length_s),
        )
        for rate_bps in run.data_path.rates_in(run.trial, run.command["connections"])
    ]


def bulk(run: Run) -> list[Event]:
    """Return all that an end of a transfer tells: its intervals, and its result."""
    flows = bulk_flows(run)
    warm_s, end_s = run.number("warmup_s"), max(flow.end_s for flow in flows)
    interval_s = run.number("interval_s")
    ends = [*cuts(warm_s, interval_s), *([warm_s] if warm_s else [])]
    ends += cuts(run.number("duration_s"), interval_s, warm_s)
    ends = [*(at_s for at_s in ends if at_s < end_s), end_s]
    told = [_bulk_interval(run, flows, *pair) for pair in zip([0.0, *ends], ends, strict=False)]
    return [*told, _bulk_result(run, flows, end_s)]


def _bulk_interval(run: Run, flows: list[Flow], from_s: float, to_s: float) -> Event:
    of_sender = {
        "retransmits": [0 for _ in flows],
        "rtt_us": [round(run.path.rtt_us) for _ in flows],
        "cwnd": [100 for _ in flows],
    }
    return {
        "event": "interval",
        "role": "sender" if run.sends else "receiver",
        "start_s": from_s,
        "length_s": to_s - from_s,
        "warmup": to_s <= run.number("warmup_s"),
        "bytes": [flow.moved(to_s) - flow.moved(from_s) for flow in flows],
        **(of_sender if run.sends else dict.fromkeys(of_sender)),
    }


def _bulk_result(run: Run, flows: list[Flow], end_s: float) -> Event:
    warm_s, wanted = run.number("warmup_s"), str(run.command.get("mode", "copy"))
    own = "zerocopy" if run.sends else "discard"
    threads = int(run.number("threads", len(flows)))
    shared = threads < len(flows)
    common_s = min(flow.end_s for flow in flows) - warm_s
    overlaps = common_s > 0 and not run.sends
    way = {
        "mode": own if own in wanted else "copy",
        "common_start_s": warm_s if overlaps else None,
        "common_length_s": common_s if overlaps else None,
        "threads": [_thread(end_s, warm_s) for _ in range(threads)] if shared else None,
        "flows": [
            _bulk_flow(run, number, flow, warm_s + common_s if overlaps else None, shared=shared)
            for number, flow in enumerate(flows)
        ],
    }
    cpus = run.command.get("cpus")
    return {
        "event": "result",
        "job": "bulk",
        "direction": run.command.get("direction", "forward"),
        "start_realtime_ns": run.start_ns,
        "elapsed_s": end_s,
        "refused": 0,
        "cpus": [int(cpu) for cpu in cpus.split(",")] if cpus else None,
        "sending": way if run.sends else None,
        "receiving": None if run.sends else way,
        "process": process_use(end_s),
        "endpoint": endpoint_use(end_s),
        "measured": {
            "start_s": warm_s,
            "length_s": end_s - warm_s,
            "process": process_use(end_s - warm_s),
            "endpoint": endpoint_use(end_s - warm_s),
        },
    }


def _thread(elapsed_s: float, warm_s: float) -> Event:
    return {**thread_use(elapsed_s), "last_cpu": 0, "measured": thread_use(elapsed_s - warm_s)}


def _bulk_flow(
    run: Run, number: int, flow: Flow, common_end_s: float | None, *, shared: bool
) -> Event:
    warm_s, size = run.number("warmup_s"), flow.moved(flow.end_s)
    period_s = flow.active_s + flow.idle_s
    common = None if common_end_s is None else flow.moved(common_end_s) - flow.moved(warm_s)
    growth = ("retransmits", "retransmitted_bytes", "busy_us")
    limits = ("receive_window_limited_us", "send_buffer_limited_us")
    tcp = tcp_state(run.path, flow.end_s, size if run.sends else 0)
    own = thread_use(flow.end_s)
    measured = thread_use(flow.end_s - warm_s)
    return {
        "flow": number,
        "bytes": size,
        "common_bytes": common,
        "start_s": 0.0,
        "end_s": flow.end_s,
        "goodput_bps": round(8 * size / flow.end_s),
        "bursts": (1 if not period_s else 1 + int(flow.end_s // period_s)) if run.sends else None,
        "mptcp": bool(run.command.get("mptcp", False)),
        **(dict.fromkeys(own) if shared else own),
        "last_cpu": None if shared else number % 2,
        "tcp": tcp,
        "measured": {
            "bytes": size - flow.moved(warm_s),
            **(dict.fromkeys(measured) if shared else measured),
            **{name: tcp[name] if run.sends else None for name in (*growth, *limits)},
        },
    }


# --- datagrams


def datagram_rate(run: Run) -> float:
    """Return the payload rate of each flow as it is sent, in bits per second."""
    share = run.data_path.rate_in(run.trial) / run.command["connections"]
    return run.number("rate_bps") or share


@dataclass(frozen=True)
class Counted:
    """Datagrams of a flow in some time: how many were sent, and did not come."""

    sent: int
    lost: int
    size: int

    @property
    def came(self) -> int:
        """How many came."""
        return self.sent - self.lost


def counted(run: Run, length_s: float) -> Counted:
    """Return the datagrams of a flow in a time: what the path has no room for is lost, too."""
    size = int(run.number("size", 1200))
    sent = int(datagram_rate(run) * length_s / (8 * size))
    room = min(
        1.0, run.data_path.rate_in(run.trial) / run.command["connections"] / datagram_rate(run)
    )
    return Counted(sent, round(sent * (1 - room * (1 - run.data_path.loss))), size)


def udp(run: Run) -> list[Event]:
    """Return all that an end of UDP flows tells: its intervals, and its result."""
    end_s = run.number("warmup_s") + run.number("duration_s")
    ends = [*cuts(end_s, run.number("interval_s")), end_s]
    told = [_udp_interval(run, *pair) for pair in zip([0.0, *ends], ends, strict=False)]
    flow = _udp_sender if run.sends else _udp_receiver
    jitter_ns = round(1000 * run.data_path.jitter_us)
    variation = {
        jitter_ns: counted(run, run.number("duration_s")).came * run.command["connections"]
    }
    result = {
        "event": "result",
        "job": "udp",
        "role": "sender" if run.sends else "receiver",
        "start_realtime_ns": run.start_ns,
        "elapsed_s": end_s,
        "refused": 0,
        "flows": [{"flow": number, **flow(run)} for number in range(run.command["connections"])],
        "process": process_use(end_s),
        "endpoint": endpoint_use(end_s),
    }
    if not run.sends:
        result["histogram"] = histogram(variation)
    return [*told, result]


def _udp_interval(run: Run, from_s: float, to_s: float) -> Event:
    early, late = counted(run, from_s), counted(run, to_s)
    sent, lost = late.sent - early.sent, late.lost - early.lost
    moved = sent if run.sends else sent - lost
    values: dict[str, float] = dict.fromkeys(_UDP_SERIES, 0)
    values |= {"bytes": moved * late.size, "datagrams": moved, "lost": lost, "behind_us": 1.5}
    values |= {"jitter_us": run.data_path.jitter_us}
    told = {
        name: [value] * run.command["connections"]
        if name in _OF_BOTH or (name in _OF_SENDERS) == run.sends
        else None
        for name, value in values.items()
    }
    role = "sender" if run.sends else "receiver"
    times = {"start_s": from_s, "length_s": to_s - from_s}
    return {"event": "interval", "role": role, **times, **told}


def _times(run: Run) -> Event:
    end_s = run.number("warmup_s") + run.number("duration_s")
    return {
        "length_s": run.number("duration_s"),
        "end_s": end_s,
        "cpu_user_s": 0.05 * end_s,
        "cpu_system_s": 0.15 * end_s,
    }


def _udp_sender(run: Run) -> Event:
    warm, main = counted(run, run.number("warmup_s")), counted(run, run.number("duration_s"))
    size = main.sent * main.size
    return {
        "sent": main.sent,
        "bytes": size,
        "sent_bps": round(8 * size / run.number("duration_s")),
        "send_refused": 0,
        "behind_max_us": 20.5,
        "slipped_s": 0.0,
        "segmented": False,
        "path_mtu": 1500,
        "warmup": {"sent": warm.sent, "bytes": warm.sent * warm.size},
        **_times(run),
    }


def _received(of: Counted) -> Event:
    return {
        "sent": of.sent,
        "datagrams": of.came,
        "bytes": of.came * of.size,
        "lost": of.lost,
        **dict.fromkeys(("reordered", "duplicates", "late"), 0),
    }


def _udp_receiver(run: Run) -> Event:
    main, jitter_us = counted(run, run.number("duration_s")), run.data_path.jitter_us
    variation = distribution(Counter({round(1000 * jitter_us): main.came}))
    quantiles = {
        f"{name}_us": None if (ns := variation[f"{name}_ns"]) is None else ns / 1000
        for name in ("p50", "p90", "p99", "p999", "max")
    }
    return {
        **_received(main),
        "goodput_bps": round(8 * main.came * main.size / run.number("duration_s")),
        "reordering_extent_max": 0,
        "loss_episodes": int(main.lost > 0),
        "loss_longest": main.lost,
        "foreign": 0,
        "receive_buffer": 212992,
        "dropped": 0,
        "jitter_us": jitter_us if main.came else None,
        "jitter_max_us": jitter_us,
        "delay_variation": {"count": main.came, **quantiles},
        "warmup": _received(counted(run, run.number("warmup_s"))),
        **_times(run),
    }
