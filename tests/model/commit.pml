/* commit.pml: ranks that save one step: attempts, records, failure records, fence, manifest, retries, and gc beside them.
 *
 *   RANKS=2|3   JOBS=1|2   TRIES=1|2    starts that save the step at once, and how often each tries; JOBS * TRIES <= 2
 *   REPLACE     the step is committed already, by a start that is gone; it is replaced. Else: a committed step is refused
 *   AGAIN       a rank that has saved the step saves it once more, while it has tries
 *   DEATHS      a process may die before each request; without it, it may only be slow for ever
 *   APART       requests that nobody else could see the order of are steps of their own
 *   LATE        requests may be carried out after their client has given up
 *   GC          gc beside it; it waits for the grace time: until nobody works on the attempt any more
 *   ZOMBIES     gc does not: whoever works on the attempt has slept through the grace time, or there is no such rule
 *   SLEEPERS    gc does when all records of the attempt stand, and then whoever works on it has slept
 *   TOMBSTONES  gc changes what stands under the manifest's key before it removes anything
 *   DATED       a manifest can only be put while its attempt is younger than the grace time
 *
 * What is broken on purpose: SHARED_FOLDER, MANIFEST_FIRST, NO_CREATE_ONLY, NO_READ_BACK, CLEANS_AT_DEADLINE,
 * CLEANS_IN_DOUBT, NO_FENCE, NO_DEADLINE, LISTS_AGAIN, FORGETS_GRAVES, OURS_IS_ENOUGH, ALL_JUDGE. README.md says what
 * each is. */
#include "store.pml"

#ifndef RANKS
#define RANKS 3
#endif
#ifndef JOBS
#define JOBS 1
#endif
#ifndef TRIES
#define TRIES 2
#endif
#if defined(GC) || defined(ZOMBIES) || defined(SLEEPERS)
#define COLLECTED
#endif

/* Attempts: those of the starts from 1; then the one that was there before. */
#define NEW (JOBS * TRIES)
#define OLD (NEW + 1)
#define TOMB (NEW + 2)
#define ATTEMPT(job, n) ((job) * TRIES + (n) + 1)
#define EVERYBODY (BIT(RANKS) - 1)

/* The manifest: whose it is, and above that how often gc has put it anew. All of it is its ETag. */
byte manifest;
#define NAMED (manifest & 7)
#define VERSION 8
#define SAVED_BY(job) (NAMED >= ATTEMPT(job, 0) && NAMED <= ATTEMPT(job, TRIES - 1))
#define COMMITTED (NAMED != NONE && NAMED != TOMB)
byte replaced; /* the attempt whose manifest it took the place of, as it says itself */
#define STANDS(a) (NAMED == a || (COMMITTED && replaced == a)) /* or has stood, right before */
byte graves; /* what a tombstone says: the attempts that gc has begun to remove; who replaces it says so too */
#define BURIED(a) ((graves & BIT(a)) != 0)

typedef Folder {
  byte file[RANKS];   /* the attempt whose bytes they are */
  byte record[RANKS]; /* the same */
  byte failed;        /* whose failure records stand */
  byte expected;      /* what rank 0 saw under the manifest's key: the condition of its put */
  byte late;          /* requests that are on their way: bit 0 the manifest, the others the records of their ranks */
#ifdef COLLECTED
  byte gone;          /* who will not work on it any more */
#endif
#ifdef DATED
  bit old;            /* the grace time has passed */
#endif
}
Folder at[OLD];
#define OF(a) at[(a) - 1]
#ifdef SHARED_FOLDER
#define IN(a) at[0]
#define RECORD_IS_FREE true
#define RECORDS_STAND(a) (HELD(at[0].record) == EVERYBODY)
#else
#define IN(a) OF(a)
#define RECORD_IS_FREE (IN(a).record[me] == NONE)
#define RECORDS_STAND(a) (HELD(OF(a).record) == EVERYBODY)
#endif

#if RANKS == 3
#define HELD(keys) ((keys[0] != NONE) | ((keys[1] != NONE) << 1) | ((keys[2] != NONE) << 2))
#define ALL_OF(keys, a) (keys[0] == a && keys[1] == a && keys[2] == a)
#else
#define HELD(keys) ((keys[0] != NONE) | ((keys[1] != NONE) << 1))
#define ALL_OF(keys, a) (keys[0] == a && keys[1] == a)
#endif
#define WHOLE(a) (ALL_OF(IN(a).file, a) && ALL_OF(IN(a).record, a))

/* starts/: start j has the number j + 1; the highest that is there. */
byte newest_start = 1;
#define SUPERSEDED(job) (newest_start > (job) + 1)

/* What no process sees, for the properties. */
byte reported_failed; /* attempts of which a rank has said: failed, and not in doubt */
byte passed_too_late; /* attempts whose rank 0 came to the fence when it was superseded already */
byte committed;       /* attempts that have been the checkpoint */
byte seen_by_0;       /* attempts that their rank 0 has called saved … */
byte lost_by_others;  /* … or whose other ranks have called it lost to somebody else */
bit ever;             /* somebody has */

/* After every change of the store. */
inline check() {
  PROMISE(1, !COMMITTED || WHOLE(NAMED));
  PROMISE(3, !ever || COMMITTED)
}

#ifdef NO_CREATE_ONLY
#define MAY_PUT(a) true
#elif defined(DATED)
#define MAY_PUT(a) (manifest == OF(a).expected && !OF(a).old)
#else
#define MAY_PUT(a) (manifest == OF(a).expected)
#endif

/* What rank 0 wants to replace is there, and gc has changed it. */
#ifdef TOMBSTONES
#define MOVED_ON(a) (manifest != OF(a).expected && \
  (NAMED == (OF(a).expected & 7) || (NAMED == TOMB && OF(a).expected == NONE)))
#else
#define MOVED_ON(a) false
#endif

/* The store carries out a put of the manifest. */
inline commit(x) {
  printf("    the manifest of attempt %d stands\n", x);
  if :: WHOLE(x) :: else -> SEEN(10) fi;
  PROMISE(4, (reported_failed & BIT(x)) == 0);
  PROMISE(6, (passed_too_late & BIT(x)) == 0);
#ifdef REPLACE
  PROMISE(4, manifest == OF(x).expected);
#else
  PROMISE(4, !COMMITTED);
#endif
  replaced = NAMED;
  manifest = x;
  ever = 1;
  committed = committed | BIT(x);
#ifdef FORGETS_GRAVES
  graves = 0;
#endif
  check()
}

inline leave() {
#ifdef COLLECTED
  OF(a).gone = OF(a).gone | BIT(me)
#else
  skip
#endif
}

inline leave_all() {
#ifdef COLLECTED
  OF(ATTEMPT(job, 0)).gone = OF(ATTEMPT(job, 0)).gone | BIT(me);
  OF(ATTEMPT(job, TRIES - 1)).gone = OF(ATTEMPT(job, TRIES - 1)).gone | BIT(me)
#else
  skip
#endif
}

/* A request that a rank goes on to. Where nobody else can tell, it is one step with what came before, which makes the
 * search short enough for six ranks: a file is named by nothing until its record stands; what is removed is named by nothing.
 * With APART it is a step of its own. A label inside an atomic block: jumps that lead there stay atomic. */
#ifdef APART
#define STEP(label) label: atomic { true
#else
#define STEP(label) TAIL(label)
#endif
#define TAIL(label) atomic { true; label: true

/* Death. A process that is never scheduled again does the same to all others, but for those that wait for its end: gc. */
#ifdef DEATHS
#define DIES :: true -> goto over
#else
#define DIES
#endif

/* One rank of one start. Rank 0 commits, the others wait for it. */
proctype Rank(byte job; byte me) {
  byte n, a;
  bit unanswered; /* a put of the manifest whose reply was lost */

  /* A start registers before it saves. Its other ranks begin when they find it there, or give up. */
  atomic {
    if
    :: me == 0 && job > 0 -> newest_start = job + 1; printf("start %d is registered\n", job)
    :: (me > 0 || job == 0) && newest_start > job
    DIES
    fi
  }

look:
  atomic {
    a = ATTEMPT(job, n);
    if :: SAVED_BY(job) -> SEEN(7) :: else fi;
    if
#ifdef OURS_IS_ENOUGH
    :: SAVED_BY(job) -> goto saved
#endif
#ifdef TOMBSTONES
    :: BURIED(a) -> goto failure
#endif
    /* Whoever has committed it. Of ranks that replace, rank 0 alone looks. */
#ifdef REPLACE
    :: !BURIED(a) -> if :: me == 0 -> OF(a).expected = manifest :: else fi
#else
    :: COMMITTED -> printf("rank %d.%d: refused\n", job, me); goto failure
    :: !COMMITTED && !BURIED(a) -> if :: me == 0 -> OF(a).expected = manifest :: else fi
#endif
    DIES
    fi
  }

put_file:
  atomic {
    printf("rank %d.%d: puts its file, attempt %d\n", job, me, a);
    if
    :: IN(a).file[me] = a; check()
    :: true -> goto failure
    DIES
    fi;
    goto put_record
  }

  STEP(put_record);
    printf("rank %d.%d: puts its record, attempt %d\n", job, me, a);
    if
    /* The reply came, or was lost and the record read back. */
    :: RECORD_IS_FREE -> IN(a).record[me] = a; check()
    :: RECORD_IS_FREE -> IN(a).record[me] = a; check(); goto record_in_doubt
#ifdef LATE
    :: me > 0 -> OF(a).late = OF(a).late | BIT(me); goto record_in_doubt
#endif
    :: true -> goto failure
    DIES
    fi;
    if
    :: me == 0 -> goto poll
    :: else -> goto wait
    fi
  }

record_in_doubt:
  atomic {
    printf("rank %d.%d: does not know of its record\n", job, me);
    if
#ifdef CLEANS_IN_DOUBT
    :: true -> goto failure
#else
    /* Nobody but rank 0 itself would name its record. */
    :: me == 0 -> goto failure
    /* The others are told, but nothing is removed: the record may stand. */
    :: me > 0 -> OF(a).failed = OF(a).failed | BIT(me); goto wait
    :: me > 0 -> goto wait
#endif
    DIES
    fi
  }

wait:
  atomic {
    if
    :: STANDS(a) -> if :: NAMED != a -> SEEN(11) :: else fi; goto saved
    /* What stands may be what rank 0 is about to replace, and only rank 0 knows. */
#if !defined(REPLACE) || defined(ALL_JUDGE)
    :: COMMITTED && !STANDS(a) ->
       printf("rank %d.%d: lost\n", job, me);
       lost_by_others = lost_by_others | BIT(a);
       PROMISE(9, (seen_by_0 & BIT(a)) == 0);
       if :: OF(a).failed = OF(a).failed | BIT(me) :: true fi;
       goto doubt
#endif
    :: (OF(a).failed & BIT(0)) != 0 -> SEEN(5); goto clean
#ifdef CLEANS_AT_DEADLINE
    :: true -> printf("rank %d.%d: deadline, removes its bytes\n", job, me); goto clean
#elif !defined(NO_DEADLINE)
    :: true -> printf("rank %d.%d: deadline\n", job, me); goto doubt
    DIES
#endif
    fi
  }

poll:
  atomic {
    if
    :: OF(a).failed != 0 -> goto failure
#ifdef MANIFEST_FIRST
    :: true
#else
    :: OF(a).failed == 0 && RECORDS_STAND(a)
#endif
#ifndef NO_DEADLINE
    :: true -> printf("rank 0 of start %d: deadline\n", job); goto failure
    DIES
#endif
    fi
  }

fence:
  atomic {
    if
    :: SUPERSEDED(job) ->
       passed_too_late = passed_too_late | BIT(a);
       SEEN(3);
#ifndef NO_FENCE
       printf("rank 0 of start %d: superseded\n", job);
       goto failure
#endif
    :: !SUPERSEDED(job)
    :: true -> goto failure
    DIES
    fi
  }

#ifdef LISTS_AGAIN
  /* Once more, right before the manifest. */
  atomic {
    if
    :: RECORDS_STAND(a) && HELD(IN(a).file) == EVERYBODY
    :: !(RECORDS_STAND(a) && HELD(IN(a).file) == EVERYBODY) -> goto failure
    DIES
    fi
  }
#endif

put_manifest:
  atomic {
    printf("rank 0 of start %d: puts the manifest of attempt %d\n", job, a);
    if
    :: MAY_PUT(a) -> if :: SUPERSEDED(job) -> SEEN(8) :: n > 0 -> SEEN(1) :: else fi; commit(a); goto saved
    :: MAY_PUT(a) -> commit(a); unanswered = 1; goto settle
#ifdef LATE
    :: !unanswered -> OF(a).late = OF(a).late | BIT(0); unanswered = 1; goto settle
    /* Sent again, while the first one is on its way. */
    :: !unanswered -> OF(a).late = OF(a).late | BIT(0); unanswered = 1; goto put_manifest
#endif
    :: !MAY_PUT(a) -> goto settle
    /* Refused for another reason than what stands there. */
    :: !unanswered -> goto failure
    :: unanswered -> goto doubt
    DIES
    fi
  }

settle:
  atomic {
    printf("rank 0 of start %d: reads the manifest back: %d\n", job, NAMED);
    if
#ifdef NO_READ_BACK
    :: true -> goto failure
#else
    :: STANDS(a) -> goto saved
    :: !STANDS(a) && MOVED_ON(a) && !BURIED(a) -> SEEN(9); OF(a).expected = manifest; goto put_manifest
    /* What asks for the version before can never be carried out any more. */
    :: !STANDS(a) && MOVED_ON(a) && BURIED(a) -> goto failure
    :: !STANDS(a) && !MOVED_ON(a) && unanswered -> goto doubt
    :: !STANDS(a) && !MOVED_ON(a) && !unanswered -> SEEN(4); goto failure
    :: true -> goto doubt
#endif
    DIES
    fi
  }

  /* Failed: this rank's bytes are named by nobody, and will not be. */
  STEP(failure);
    printf("rank %d.%d: failed, attempt %d\n", job, me, a);
    reported_failed = reported_failed | BIT(a);
    PROMISE(4, NAMED != a);
    unanswered = 0;
    if
    :: OF(a).failed = OF(a).failed | BIT(me)
    :: true
    DIES
    fi;
    goto clean
  }

  STEP(clean);
    reported_failed = reported_failed | BIT(a);
    PROMISE(4, NAMED != a);
    if
    :: IN(a).file[me] = NONE; check()
    DIES
    fi;
    goto clean_record
  }

  STEP(clean_record);
    if
    :: IN(a).record[me] = NONE; check(); goto again
    DIES
    fi
  }

  TAIL(saved);
    printf("rank %d.%d: saved\n", job, me);
    PROMISE(4, (committed & BIT(a)) != 0);
    if :: me == 0 -> seen_by_0 = seen_by_0 | BIT(a) :: else fi;
    PROMISE(9, (committed & lost_by_others) == 0);
#ifdef AGAIN
    goto again;
#else
    goto over;
#endif
doubt:
    printf("rank %d.%d: in doubt, attempt %d\n", job, me, a);
again:
    leave();
    unanswered = 0;
    if
    :: n + 1 < TRIES -> n++; goto look
    :: else
    fi;
over:
    leave_all();
    n = 0;
    a = 0;
    unanswered = 0
  }
}

/* Requests that arrive when nobody waits for them any more. They need not. */
#ifdef LATE
#define MANIFEST_ARRIVES(x) \
  :: atomic { (OF(x).late & BIT(0)) != 0 -> OF(x).late = OF(x).late & ~BIT(0); \
     printf("the manifest of attempt %d arrives late\n", x); \
     if :: MAY_PUT(x) -> SEEN(2); commit(x) :: else fi }
#define RECORD_ARRIVES(x, rank) \
  :: atomic { (OF(x).late & BIT(rank)) != 0 -> OF(x).late = OF(x).late & ~BIT(rank); \
     printf("the record of rank %d in attempt %d arrives late\n", rank, x); \
     if :: IN(x).record[rank] == NONE -> IN(x).record[rank] = x; check() :: else fi }

proctype Network() {
end:
  do
  MANIFEST_ARRIVES(1)
  RECORD_ARRIVES(1, 1)
#if RANKS == 3
  RECORD_ARRIVES(1, 2)
#endif
#if NEW > 1
  MANIFEST_ARRIVES(2)
  RECORD_ARRIVES(2, 1)
#if RANKS == 3
  RECORD_ARRIVES(2, 2)
#endif
#endif
  od
}
#endif

/* gc removes one attempt, object by object. */
#ifdef COLLECTED
#ifdef GC
#define GRACE(x) (OF(x).gone == EVERYBODY && OF(x).late == 0)
#elif defined(SLEEPERS)
#define GRACE(x) RECORDS_STAND(x)
#else
#define GRACE(x) true
#endif

inline collect(keys) {
  atomic {
    PROMISE(8, NAMED != a);
    if :: keys != NONE -> SEEN(6); printf("gc: removes an object of attempt %d\n", a) :: else fi;
    keys = NONE;
    check()
  }
}

proctype Collector() {
  byte a, seen;

  /* The list, and the age of what is in it. */
  atomic {
    if
    :: GRACE(1) -> a = 1
#if NEW > 1
    :: GRACE(2) -> a = 2
#endif
#ifdef REPLACE
    :: a = OLD
#endif
    :: true -> goto over
    fi;
#ifdef DATED
    OF(a).old = 1;
#endif
    printf("gc: looks at attempt %d\n", a)
  }
  /* The manifest, after the list. */
  atomic {
    seen = manifest;
    if
    :: NAMED == a -> goto over
    :: else
    fi
  }
#ifdef TOMBSTONES
  atomic {
    if
    :: manifest != seen -> goto over
    :: manifest == seen && COMMITTED -> manifest = manifest + VERSION
    :: manifest == seen && NAMED == NONE -> manifest = TOMB
    :: manifest == seen && NAMED == TOMB -> manifest = manifest + VERSION
    fi;
    graves = graves | BIT(a);
    printf("gc: changes what stands under the manifest's key\n")
  }
#endif
  collect(IN(a).record[0]);
  collect(IN(a).file[0]);
  collect(IN(a).record[1]);
  collect(IN(a).file[1]);
#if RANKS == 3
  collect(IN(a).record[2]);
  collect(IN(a).file[2]);
#endif
over:
  atomic { a = 0; seen = 0 }
}
#endif

init {
  atomic {
#ifdef REPLACE
    OF(OLD).file[0] = OLD;
    OF(OLD).file[1] = OLD;
    OF(OLD).record[0] = OLD;
    OF(OLD).record[1] = OLD;
#if RANKS == 3
    OF(OLD).file[2] = OLD;
    OF(OLD).record[2] = OLD;
#endif
    manifest = OLD;
    ever = 1;
#endif
#ifdef LATE
    run Network();
#endif
#ifdef COLLECTED
    run Collector();
#endif
    run Rank(0, 0);
    run Rank(0, 1);
#if RANKS == 3
    run Rank(0, 2);
#endif
#if JOBS > 1
    run Rank(1, 0);
    run Rank(1, 1);
#if RANKS == 3
    run Rank(1, 2);
#endif
#endif
  }
}
