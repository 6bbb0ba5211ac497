/* osmef-agent: one end of a measurement, as described in docs/agent-protocol.md. */
#include "agent_multiplexer.h"
#include "cleanup.h"
#include "command_line.h"
#include "limits.h"
#include "serve.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "Usage: osmef-agent recv [OPTIONS]        receive one measurement and report it\n"
    "       osmef-agent send HOST [OPTIONS]   send to a waiting osmef-agent recv\n"
    "       osmef-agent pong|ping|siege       HTTP requests and answers; each has --help\n"
    "       osmef-agent serve [--many]        obey a controller on standard input\n"
    "       osmef-agent cleanup DIRECTORY     remove it when standard input ends\n"
    "\n"
    "Options of recv and send:\n"
    "  --port PORT                port of the receiver (5210)\n"
    "  --interval SECONDS         length of the intervals reported (1)\n"
    "  --cookie-file FILE         32 hex digits that both sides must share (all zero)\n"
    "  --json                     print the events of the agent protocol\n"
    "  --mode MODE                copy, zerocopy (sending), discard (receiving), or\n"
    "                             zerocopy-discard (copy)\n"
    "  --threads N                threads that serve the flows (one for each)\n"
    "  --cpus LIST                bind the threads to these CPUs in turn, as in 0,2,5\n"
    "  --active SECONDS           length of each burst; a pause follows it\n"
    "  --idle SECONDS             length of these pauses; the other side must know it too\n"
    "  --window BYTES             socket buffers (the kernel tunes them)\n"
    "  --mss BYTES                largest segment\n"
    "  --congestion-control NAME  as in sysctl net.ipv4.tcp_allowed_congestion_control\n"
    "  --pacing BITS              the most that a flow may send, in bits per second\n"
    "  --dscp NUMBER              0 to 63\n"
    "  --mptcp                    MPTCP, at both sides\n"
    "\n"
    "Options of recv:\n"
    "  --bind ADDRESS             address to listen on (all)\n"
    "\n"
    "Options of send:\n"
    "  --connections N            parallel TCP connections, 1 to 1000 (1); also --flows N\n"
    "  --duration SECONDS         how long to send (10); with --bytes, at most\n"
    "  --bytes N                  send so many bytes in each flow\n"
    "  --warmup SECONDS           send for so long before the measurement (0)\n"
    "  --reverse                  the receiver sends instead\n"
    "  --both                     both send, on N connections each\n"
    "  -4, -6                     take only IPv4 or IPv6 addresses of HOST\n"
    "\n"
    "Exit status: 0 measured, 1 the measurement failed, 2 wrong usage.\n"
    "\n"
    "Example:\n"
    "  one$ osmef-agent recv\n"
    "  two$ osmef-agent send one --connections 4 --duration 10\n";

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    signal(SIGPIPE, SIG_IGN);
    limits_raise();
    if (strcmp(command, "serve") == 0 && argc == 2) {
        say_hello();
        serve();
    }
    if (strcmp(command, "serve") == 0 && argc == 3 && strcmp(argv[2], "--many") == 0) {
        say_hello();
        serve_many();
    }
    if (strcmp(command, "cleanup") == 0)
        return cleanup(argc - 1, argv + 1);
    if (is_command(command))
        return run_command(argc - 1, argv + 1);
    if (strcmp(command, "--version") == 0) {
        puts("osmef-agent " OSMEF_VERSION);
        return 0;
    }
    if (strcmp(command, "--help") == 0) {
        fputs(help, stdout);
        return 0;
    }
    fputs(help, stderr);
    return 2;
}
