"""Names of the kinds of figures, without the slow import of their modules."""

from __future__ import annotations

from enum import StrEnum


class FigureKind(StrEnum):
    """A kind of figure; ``about`` describes it."""

    about: str

    def __new__(cls, name: str, about: str) -> FigureKind:
        """Create a member that equals its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.about = about
        return member

    BTC_CONNECTIONS = "btc-connections", "aggregate BTC against connections"
    BTC_DISTANCE = "btc-distance", "BTC per connection against distance"
    FAIRNESS = "fairness", "Jain's index of fairness against connections"
    CPU = "cpu", "CPU load of both ends against connections"
    LIMITS = "limits", "what limited the connections"
    INTERVALS = "intervals", "rate over time"
    BUCKET = "bucket", "what a token bucket let pass until it was empty, and how it fills"
    TOPOLOGY = "topology", "endpoints in their hosts, with the rates between them"
    UDP_LOSS = "udp-loss", "loss of UDP against the offered rate"
    UDP_JITTER = "udp-jitter", "jitter of UDP against the offered rate"
    LATENCY = "latency", "distribution of round-trip times: the share that took longer"
    COURSE = "course", "rate and round-trip time over time"
    SWEEP_THROUGHPUT = "sweep-throughput", "throughput against message size, as NetPIPE's"
    SWEEP_TIME = "sweep-time", "time of a message against its size, as NetPIPE's"
    SCALE_RATE = "scale-rate", "rate of a computation against the number of endpoints"
    SCALE_TIME = "scale-time", "time of a computation against the number of endpoints"
    PINGPONG_TRANSFER = "pingpong-transfer", "transfer rate of requests against message size"
    PINGPONG_LATENCY = "pingpong-latency", "latency of requests against message size"
    PINGPONG_REQUESTS = "pingpong-requests", "requests per second against message size"
    LAYERS = "layers", "what layers such as an overlay or a container leave of the bare rate"
    ECDF = "ecdf", "distribution function of a metric over the trials"
    SESSIONS = "sessions", "box plots of a metric by session"
    COV = "cov", "coefficient of variation of metrics"
    PRICE = "price", "what flavors deliver for their hourly price"
    SIMILARITY = "similarity", "heatmap of how similar machine types are"
