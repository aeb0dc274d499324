/* How long OpenMP's threads spin while they wait for work. */
#ifndef CLI_SPIN_H
#define CLI_SPIN_H

/* Idle threads of GNU's OpenMP spin for milliseconds before they sleep. That is time taken from the
 * loader's workers, and where the machine is shared every barrier costs a time slice: training
 * small networks beside a busy neighbour was measured to run three times slower. The library reads
 * its environment when it is loaded, before main(); so, unless the user has said something on the
 * matter, this starts the program once more with a shorter spin. Returns where that is not needed
 * or not possible. */
void spin_limit(char **argv);

#endif
