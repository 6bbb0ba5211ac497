"""What a measurement used of an endpoint."""

from __future__ import annotations

from pydantic import Field

from osmef.scenario.base import Model


class ProcessUse(Model):
    """What the agent's process used during the transfer."""

    cpu_user_s: float = Field(description="CPU time in user mode, seconds")
    cpu_system_s: float = Field(description="CPU time in the kernel, seconds")
    max_rss_kb: int | None = Field(default=None, description="largest resident memory, KiB")


class InterfaceUse(Model):
    """What went through a network interface of an endpoint in a trial."""

    endpoint: str = Field(description="name of the endpoint")
    name: str = Field(description="name of the interface, `lo` among them")
    measured: bool | None = Field(
        description="whether it has the address that was measured; null where nobody asked"
    )
    rx_bytes: int | None = Field(
        description="bytes that came, with all headers but those that the network card removes;"
        " null if the counter began anew"
    )
    rx_packets: int | None = Field(description="packets that came")
    tx_bytes: int | None = Field(description="bytes that went")
    tx_packets: int | None = Field(description="packets that went")


class Carried(Model):
    """What an endpoint had received and sent when a trial began, since its interfaces are there.

    That is since it was made or booted: of all interfaces but the loopback, as far as their
    counters go.
    """

    endpoint: str = Field(description="name of the endpoint")
    received_bytes: int = Field(description="bytes that came, with headers")
    sent_bytes: int = Field(description="bytes that went, with headers")


class EachCpu(Model):
    """Difference of /proc/stat over the transfer for each CPU; lists hold one value a CPU."""

    cpu: list[int] = Field(description="number of the CPU; at most 512 of them are told")
    idle_s: list[float] = Field(description="idle, also while waiting for a disk")
    interrupts_s: list[float] = Field(description="interrupts and soft interrupts")
    steal_s: list[float] = Field(description="taken by the hypervisor for others")


class QuotaUse(Model):
    """CPU quota of the control group of the agent, or of one above it, that was used up most."""

    cpus: float = Field(description="CPU time that it allows, seconds per second")
    periods: int = Field(description="periods in which the group had something to run")
    throttled: int = Field(description="those of them in which the quota was used up")
    throttled_s: float = Field(
        description="time in which the group could have run and was not let, summed over CPUs"
    )


class EndpointUse(Model):
    """Difference of /proc/stat over the transfer, summed over the CPUs the agent may run on."""

    cpus: int = Field(description="CPUs that the agent may run on; the rest is summed over them")
    elapsed_s: float = Field(description="seconds between both readings of /proc/stat")
    user_s: float = Field(description="user mode, guests included")
    nice_s: float = Field(description="user mode at low priority")
    system_s: float = Field(description="kernel")
    idle_s: float = Field(description="idle")
    iowait_s: float = Field(description="idle while waiting for a disk")
    irq_s: float = Field(description="interrupts")
    softirq_s: float = Field(
        description="soft interrupts, where the kernel does most of its network work"
    )
    steal_s: float | None = Field(description="taken by the hypervisor for others")
    guest_s: float | None = Field(description="running guests; within `user_s` already")
    each: EachCpu | None = Field(default=None, description="the same for each CPU")
    quota: QuotaUse | None = Field(
        default=None, description="the CPU quota of control groups; null: none was found"
    )
