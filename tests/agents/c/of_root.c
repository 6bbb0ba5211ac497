/* With the set-user-ID bit: becomes root for good, prints "up" and waits. */
#include <unistd.h>

int main(void)
{
    if (setresuid(0, 0, 0) < 0 || write(STDOUT_FILENO, "up\n", 3) != 3)
        return 1;
    pause();
    return 0;
}
