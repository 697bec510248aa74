/* retention.pml: saves, replacing saves, loads, prune and gc on the steps of a run.
 *
 * What commit.pml proves is taken for granted here: a save stores its pieces, and its manifest is one conditional put. The
 * pieces, their removal and their reading are one request each. Steps 1 and 2 are committed when this begins, by attempts
 * 1 and 2; attempt 3 replaces step 2, or saves it again once it is pruned; attempt 4 saves step 3.
 *
 *   PRUNES=1|2   prunes at once; all but the newest step go
 *   GC           gc, which keeps the grace time
 *   AGAIN        the put of the manifest of attempt 2 is sent a second time, much later, by one who lost the reply
 *   TOMBSTONES   prune puts a tombstone in place of the manifest (If-Match) instead of deleting it
 *
 * What is broken on purpose: DATA_FIRST, WHOLE_FOLDER, PRUNES_NEWEST, DELETES_TO_REPLACE, NAMED_IS_ENOUGH, NO_GRACE. */
#include "store.pml"

#ifndef PRUNES
#define PRUNES 2
#endif

#define STEPS 3
#define ATTEMPTS 4
#define TOMB 7
#define PIECES 3 /* of two ranks: its file and its record are one here */

byte manifest[STEPS + 1]; /* by step: the attempt that it names */
byte held[ATTEMPTS + 1];  /* by attempt: which pieces are there */
byte writing = BIT(3) | BIT(4); /* attempts that somebody works on */
#define STEP_OF(a) ((a) == 1 -> 1 : ((a) == 4 -> 3 : 2))
#define COMMITTED(step) (manifest[step] != NONE && manifest[step] != TOMB)
#define VISIBLE(a) (manifest[STEP_OF(a)] == (a))

/* After every change of the store. */
inline check() {
  PROMISE(1, (!COMMITTED(1) || held[manifest[1]] == PIECES) && (!COMMITTED(2) || held[manifest[2]] == PIECES) &&
    (!COMMITTED(3) || held[manifest[3]] == PIECES));
  PROMISE(3, COMMITTED(1) || COMMITTED(2) || COMMITTED(3))
}

/* The newest committed step, as a list shows it. */
inline newest_of(x) {
  if
  :: COMMITTED(3) -> x = 3
  :: !COMMITTED(3) && COMMITTED(2) -> x = 2
  :: !COMMITTED(3) && !COMMITTED(2) -> x = 1
  fi
}

/* Attempt `a` of its step: replaces what it finds there. */
proctype Save(byte a) {
  byte step, seen;

  atomic { step = STEP_OF(a); seen = manifest[step] }
  atomic { if :: held[a] = held[a] | 1 :: goto over fi }
  atomic { if :: held[a] = held[a] | 2 :: goto over fi }
#ifdef DELETES_TO_REPLACE
  atomic { manifest[step] = NONE; seen = NONE; check() }
#endif
  atomic {
    if
    :: manifest[step] == seen -> manifest[step] = a; printf("step %d: attempt %d is committed\n", step, a); check()
    :: manifest[step] != seen -> printf("step %d: attempt %d is refused\n", step, a)
    :: true
    fi
  }
over:
  atomic { writing = writing & ~BIT(a); step = 0; seen = 0 }
}

/* Removes a piece that is there. */
inline drop(x, piece) {
  atomic {
    PROMISE(8, (held[x] & piece) == 0 || !VISIBLE(x));
    if
    :: (held[x] & piece) != 0 -> SEEN(34); printf("a piece of attempt %d is removed\n", x); held[x] = held[x] & ~piece
    :: else
    fi;
    check()
  }
}

inline drop_all(y) {
  drop(y, 1);
  drop(y, 2)
}

/* Keeps the newest step. It may die anywhere, or sleep. */
proctype Prune() {
  byte step, a, newest;

  atomic { newest_of(newest); printf("prune: the newest step is %d\n", newest) }
  step = 1;
#ifdef PRUNES_NEWEST
  do
  :: step <= newest ->
#else
  do
  :: step < newest ->
#endif
     atomic { a = manifest[step]; if :: a == NONE || a == TOMB -> a = NONE :: else fi }
     if
     :: a != NONE ->
#ifdef DATA_FIRST
        drop_all(a);
#endif
#ifdef TOMBSTONES
        atomic {
          if
          :: manifest[step] == a -> manifest[step] = TOMB
          :: manifest[step] != a -> a = NONE
          fi;
          check()
        }
#else
        atomic { manifest[step] = NONE; printf("prune: the manifest of step %d is deleted\n", step); check() }
#endif
#ifdef WHOLE_FOLDER
        if
        :: step == 2 -> drop_all(3)
        :: step != 2
        fi;
#endif
        if
        :: a != NONE -> drop_all(a)
        :: a == NONE
        fi
     :: a == NONE
     fi;
     step++
#ifdef PRUNES_NEWEST
  :: step > newest -> break
#else
  :: step >= newest -> break
#endif
  od;
  atomic { step = 0; a = 0; newest = 0 }
}

/* The list with the age of what is in it, then the manifest, then the removal. */
#ifdef GC
#ifdef NO_GRACE
#define IS_OLD(a) true
#else
#define IS_OLD(a) ((writing & BIT(a)) == 0)
#endif

proctype Collector() {
  byte a;

  atomic {
    if
    :: IS_OLD(1) -> a = 1
    :: IS_OLD(2) -> a = 2
    :: IS_OLD(3) -> a = 3
    :: IS_OLD(4) -> a = 4
    fi;
    if
    :: held[a] == 0 -> goto over
    :: else
    fi
  }
  atomic {
    if
    :: VISIBLE(a) -> goto over
    :: !VISIBLE(a)
    fi
  }
  drop_all(a);
over:
  a = 0
}
#endif

/* Loads the newest step. */
proctype Load() {
  byte step, a, got;

  atomic { newest_of(step) }
  atomic {
    a = manifest[step];
    if
    :: a == NONE || a == TOMB -> printf("load: removed before it was opened\n"); SEEN(32); goto over
    :: else -> printf("load: step %d, attempt %d\n", step, a)
    fi
  }
  do
  :: got != PIECES ->
     atomic {
       if
       :: (held[a] & (got + 1)) != 0 -> got = got + got + 1
       :: (held[a] & (got + 1)) == 0 -> goto missing
       fi
     }
  :: got == PIECES -> break
  od;
  atomic { SEEN(31); printf("load: done\n"); goto over }
missing:
  atomic {
    if
#ifdef NAMED_IS_ENOUGH
    :: manifest[step] == NONE || manifest[step] == TOMB -> printf("load: removed while it was loaded\n")
    :: !(manifest[step] == NONE || manifest[step] == TOMB) -> printf("load: damaged\n"); PROMISE(2, false)
#else
    :: manifest[step] == a -> printf("load: damaged\n"); PROMISE(2, false)
    :: manifest[step] == NONE || manifest[step] == TOMB -> printf("load: removed while it was loaded\n"); SEEN(32)
    :: manifest[step] != a && COMMITTED(step) -> printf("load: replaced while it was loaded\n"); SEEN(33)
#endif
    fi
  }
over:
  atomic { step = 0; a = 0; got = 0 }
}

/* A put of attempt 2's manifest that was carried out, whose reply was lost, and that is sent again. */
#ifdef AGAIN
proctype Again() {
  atomic {
    if
    :: manifest[2] == NONE -> manifest[2] = 2; printf("step 2: the manifest of attempt 2 is put again\n"); check()
    :: manifest[2] != NONE
    fi
  }
}
#endif

init {
  atomic {
    held[1] = PIECES;
    held[2] = PIECES;
    manifest[1] = 1;
    manifest[2] = 2;
    run Save(3);
    run Save(4);
    run Load();
#ifdef GC
    run Collector();
#endif
#ifdef AGAIN
    run Again();
#endif
    run Prune();
#if PRUNES > 1
    run Prune();
#endif
  }
}
