package io.github.rratelimiter.oracle;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import org.redisson.api.RRateLimiter;

/** Many threads that take permits of one limiter as fast as it gives them, and what each of them got when. */
final class Crowd {
    /** Keeps denied threads from filling both CPUs of a small machine, and is far below any interval that a test uses. */
    private static final long PAUSE_AFTER_DENIAL_NANOS = 200_000;

    private static final long PAUSE_AFTER_ERROR_NANOS = 5_000_000;

    private static final Pattern DETAILS = Pattern.compile("\\b(script|channel|[Cc]ommand|params|Redis client): .*", Pattern.DOTALL);

    private Crowd() {
    }

    /** What callers got. */
    static class Result {
        /** Start and end of each granted call, in Unix microseconds, and its permits. */
        final List<long[]> grants = new ArrayList<>();
        final Map<String, Long> errors = new TreeMap<>();
        long denials;
    }

    private static final class Member extends Result {
        private void acquire(RRateLimiter limiter, Request q, long deadlineNanos) {
            for (;;) {
                long leftMillis = TimeUnit.NANOSECONDS.toMillis(deadlineNanos - System.nanoTime());
                if (leftMillis <= 0) {
                    return;
                }
                try {
                    long start = nowMicros();
                    boolean granted = q.acquireTimeoutMillis == 0
                            ? limiter.tryAcquire(q.permits)
                            : limiter.tryAcquire(q.permits, Math.min(q.acquireTimeoutMillis, leftMillis), TimeUnit.MILLISECONDS);
                    long end = nowMicros();
                    if (granted) {
                        grants.add(new long[] {start, end, q.permits});
                    } else {
                        denials++;
                        LockSupport.parkNanos(PAUSE_AFTER_DENIAL_NANOS);
                    }
                } catch (RuntimeException e) {
                    errors.merge(headline(Main.innermost(e)), 1L, Long::sum);
                    LockSupport.parkNanos(PAUSE_AFTER_ERROR_NANOS);
                }
            }
        }
    }

    static Result run(RRateLimiter limiter, Request q) throws InterruptedException {
        long deadlineNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(q.millis);
        List<Member> members = new ArrayList<>();
        List<Thread> running = new ArrayList<>();
        for (int i = 0; i < q.threads; i++) {
            Member member = new Member();
            Thread thread = new Thread(() -> member.acquire(limiter, q, deadlineNanos), "crowd-" + i);
            thread.setDaemon(true);
            thread.start();
            members.add(member);
            running.add(thread);
        }
        Result all = new Result();
        for (int i = 0; i < q.threads; i++) {
            running.get(i).join();
            Member member = members.get(i);
            all.grants.addAll(member.grants);
            all.denials += member.denials;
            member.errors.forEach((message, count) -> all.errors.merge(message, count, Long::sum));
        }
        return all;
    }

    /** What went wrong, without the details that Redisson appends and that differ from call to call, so that equal errors can be counted. */
    private static String headline(Throwable thrown) {
        return DETAILS.matcher(thrown.toString()).replaceFirst("").strip();
    }

    private static long nowMicros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }
}
