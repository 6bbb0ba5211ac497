/* Prints "up" and waits, beside as many chains of processes as it is told: each link leads a session
 * of its own, lives for two milliseconds, and leaves a child without a parent. */
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define LIFE_US 2000

static void live_on(void)
{
    for (;;) {
        setsid();
        usleep(LIFE_US);
        const pid_t child = fork();
        if (child != 0)
            _exit(0);
    }
}

int main(int argc, char **argv)
{
    for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
        if (fork() == 0)
            live_on();
    if (write(STDOUT_FILENO, "up\n", 3) != 3)
        return 1;
    pause();
    return 0;
}
