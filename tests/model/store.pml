/* store.pml: what all models share: how a store is modelled, and how a property is written down.
 *
 * A key is a variable, and what it holds says who wrote it. One request is one atomic step, so a list sees one moment.
 * Whatever may befall a request is a branch of that step:
 *
 *   carried out, and the reply comes       carried out, and the reply is lost
 *   refused, and the reply says so         on its way yet when the client gives up ("late"): carried out at any later
 *                                          moment, or never
 *
 * Before each request the process may die. One that is slow is one that is not scheduled: a zombie needs no statement of
 * its own. A wait for something is a guard; its deadline is a branch that is always open. No model has a loop without a
 * bound, so that "no invalid end state" means: every process comes to its end. */

/* Property `n` of README.md; `n` is written into the assertion, so that a run can be told which one failed. What is broken
 * on purpose often breaks several: with -DONLY=n the others are not looked at. */
#ifndef ONLY
#define ONLY 0
#endif
#define PROMISE(n, condition) assert((condition) || n == 100 || (ONLY != 0 && ONLY != n))

/* A place that must be in reach, or the proof is one of nothing: with -DWITNESS=n it is an error to come here. */
#ifndef WITNESS
#define WITNESS 0
#endif
#define SEEN(n) assert(WITNESS != n)

#define NONE 0
#define BIT(i) (1 << (i))
