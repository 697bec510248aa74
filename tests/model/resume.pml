/* resume.pml: how the ranks of a start agree on the step they resume from, and the fence that comes of it.
 *
 * Rank 0 of each start looks for the highest number under starts/, reads the newest committed step, and puts the next
 * number create-only, with both in it; the other ranks wait for an entry of their start. Then rank 0 commits steps, with
 * the fence before each.
 *
 *   JOBS=2|3  RANKS=2|3   starts at once, and their ranks
 *   LATE                  the put of an entry may be carried out after its client has given up
 *
 * What is broken on purpose: NO_AGREEMENT, NO_READ_BACK, NAME_IN_KEY, OWN_IDEA, NO_FENCE. */
#include "store.pml"

#ifndef JOBS
#define JOBS 2
#endif
#ifndef RANKS
#define RANKS 3
#endif
#define STEPS 3 /* the newest step that anybody may commit; 1 is there when this begins */
#define NUMBERS (2 * JOBS + 1)

/* starts/: who has a number, and the step in the entry. With the start's name in the key, each has keys of its own. */
typedef Entry {
  byte start; /* its job + 1 */
  byte step;
}
#ifdef NAME_IN_KEY
#define KEY(n, job) ((n) * JOBS + (job))
#define KEYS ((NUMBERS + 1) * JOBS)
#else
#define KEY(n, job) (n)
#define KEYS (NUMBERS + 1)
#endif
Entry starts[KEYS];
byte highest; /* number that is there */

byte newest = 1; /* committed step */

/* A put that is on its way; each start has one that lags. */
typedef Request {
  byte number;
  byte step;
  bit sent;
}
Request late[JOBS];

/* What no process sees. */
byte agreed[JOBS];  /* the step that the first rank resumed from */
byte last;          /* who registered last: job + 1 */

inline enter(x, j, s) {
  printf("    number %d is that of start %d, step %d\n", x, j, s);
  starts[KEY(x, j)].start = j + 1;
  starts[KEY(x, j)].step = s;
  if :: x > highest -> highest = x :: else fi;
  last = j + 1
}

inline resume_from(s) {
  printf("start %d: a rank resumes from step %d\n", job, s);
  PROMISE(5, agreed[job] == NONE || agreed[job] == s);
  agreed[job] = s
}

proctype Leader(byte job) {
  byte n, step, commits;
  bit superseded;

  /* The list. */
  atomic {
    if
    :: highest < NUMBERS -> n = highest + 1
    :: true -> goto over
    fi
  }
look:
  atomic {
    if
    :: step = newest
    :: true -> goto over
    fi
  }
#ifdef NO_AGREEMENT
  goto agreed_on;
#endif
put:
  atomic {
    printf("rank 0 of start %d: puts number %d, step %d\n", job, n, step);
    assert(n <= NUMBERS);
    if
    :: starts[KEY(n, job)].start == NONE -> enter(n, job, step)
    :: starts[KEY(n, job)].start == NONE -> enter(n, job, step); goto settle
#ifdef LATE
    :: !late[job].sent -> late[job].sent = 1; late[job].number = n; late[job].step = step; goto settle
#endif
    :: starts[KEY(n, job)].start != NONE -> SEEN(21); goto settle
    :: true -> goto over
    fi
  }
  goto agreed_on;

settle:
  atomic {
    if
#ifdef NO_READ_BACK
    :: n < NUMBERS -> n++; goto look
    :: n >= NUMBERS -> goto over
#else
#ifdef OWN_IDEA
    :: starts[KEY(n, job)].start == job + 1
#else
    /* What is in the entry counts: it may be that of a put before this one. */
    :: starts[KEY(n, job)].start == job + 1 -> SEEN(22); step = starts[KEY(n, job)].step
#endif
    /* The newest step may be another by now: it is read again. */
    :: starts[KEY(n, job)].start != NONE && starts[KEY(n, job)].start != job + 1 -> n++; goto look
    :: starts[KEY(n, job)].start == NONE -> goto look
    :: true -> goto over
#endif
    fi
  }

agreed_on:
  atomic {
    if :: step < newest -> SEEN(24) :: else fi;
    resume_from(step)
  }

  /* It trains, and saves. */
save:
  atomic {
    superseded = last != job + 1;
    if
    :: highest > n && commits < 2 -> SEEN(23);
#ifndef NO_FENCE
       goto over
#endif
    :: highest <= n && commits < 2
    :: true -> goto over
    fi
  }
  atomic {
    if
    :: step < STEPS ->
       PROMISE(6, !superseded);
       step++;
       if :: last != job + 1 -> SEEN(25) :: else fi;
       if :: step > newest -> newest = step; printf("start %d: commits step %d\n", job, step) :: else fi;
       commits++;
       goto save
    :: true -> goto over
    fi
  }
over:
  atomic { n = 0; step = 0; commits = 0; superseded = 0 }
}

proctype Follower(byte job) {
  byte n;

#ifdef NO_AGREEMENT
  atomic { if :: resume_from(newest) :: true fi }
#else
  /* Until an entry of this start is there, wherever it is met first; or a deadline. */
  atomic {
    n = 1;
    do
    :: n < NUMBERS -> n++
    :: starts[KEY(n, job)].start == job + 1 -> break
    :: true -> goto over
    od;
    n = starts[KEY(n, job)].step;
    resume_from(n)
  }
over:
  atomic { n = 0 }
#endif
}

#ifdef LATE
#define ENTRY_ARRIVES(job) \
  :: atomic { late[job].number != 0 -> \
     number = late[job].number; \
     step = late[job].step; \
     if \
     :: starts[KEY(number, job)].start == NONE -> enter(number, job, step) \
     :: else \
     fi; \
     late[job].number = 0; late[job].step = 0; number = 0; step = 0 }

proctype Network() {
  byte number, step;

end:
  do
  ENTRY_ARRIVES(0)
  ENTRY_ARRIVES(1)
#if JOBS > 2
  ENTRY_ARRIVES(2)
#endif
  od
}
#endif

init {
  atomic {
#ifdef LATE
    run Network();
#endif
    run Leader(0);
    run Leader(1);
    run Follower(0);
    run Follower(1);
#if RANKS > 2
    run Follower(0);
    run Follower(1);
#endif
#if JOBS > 2
    run Leader(2);
    run Follower(2);
#if RANKS > 2
    run Follower(2);
#endif
#endif
  }
}
