/* Prints "up" and waits, beside as many chains of processes as it is told: each link leads a session
 * of its own, lives for a moment, and leaves a child without a parent. Many chains live longer: those
 * that ended must not fill the machine's table of processes before anybody looks at them. */
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define LIFE_US 2000

static void live_on(int chains)
{
    for (;;) {
        setsid();
        usleep(LIFE_US * (1 + chains / 4));
        const pid_t child = fork();
        if (child != 0)
            _exit(0);
    }
}

int main(int argc, char **argv)
{
    const int chains = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 0; i < chains; i++)
        if (fork() == 0)
            live_on(chains);
    if (write(STDOUT_FILENO, "up\n", 3) != 3)
        return 1;
    pause();
    return 0;
}
