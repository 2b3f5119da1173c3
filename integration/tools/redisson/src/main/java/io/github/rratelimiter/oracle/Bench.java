package io.github.rratelimiter.oracle;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RedissonClient;

/** As many decisions as Redisson can make, and how long each took: callers that run from the start to the stop, and are counted in between. */
final class Bench {
    private final RRateLimiter[] limiters;
    private final long permits;
    private final List<Caller> callers = new ArrayList<>();
    private final CountDownLatch running;
    private volatile boolean counting;
    private volatile boolean stopped;
    private long elapsedNanos;
    private long cpuNanos;

    private Bench(RRateLimiter[] limiters, long permits, int count) {
        this.limiters = limiters;
        this.permits = permits;
        this.running = new CountDownLatch(count);
    }

    /** Returns once every caller has begun. Threads are all there before the first of them calls: to start many takes its time. */
    static Bench start(RedissonClient redisson, Request q) throws InterruptedException {
        RRateLimiter[] limiters = new RRateLimiter[q.limiters];
        for (int i = 0; i < limiters.length; i++) {
            limiters[i] = redisson.getRateLimiter(q.limiter + i);
        }
        int count = q.threads;
        Bench bench = new Bench(limiters, q.permits, count);
        for (int i = 0; i < count; i++) {
            bench.callers.add(bench.new Caller());
        }
        if (q.async) {
            bench.callers.forEach(Caller::next);
            return bench;
        }
        CountDownLatch started = new CountDownLatch(count);
        CountDownLatch go = new CountDownLatch(1);
        for (Caller caller : bench.callers) {
            Thread thread = new Thread(() -> {
                started.countDown();
                try {
                    go.await();
                } catch (InterruptedException e) {
                    throw new IllegalStateException("interrupted before a benchmark began", e);
                }
                caller.block();
            }, "bench");
            thread.setDaemon(true);
            thread.start();
        }
        started.await();
        go.countDown();
        return bench;
    }

    /** Counts the calls that begin within that time, in addition to those counted before. */
    synchronized void count(long millis) throws InterruptedException {
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu = system.getProcessCpuTime();
        long start = System.nanoTime();
        counting = true;
        Thread.sleep(millis);
        counting = false;
        elapsedNanos += System.nanoTime() - start;
        cpuNanos += system.getProcessCpuTime() - cpu;
    }

    synchronized Result stop() throws InterruptedException {
        stopped = true;
        running.await();
        Histogram latencies = new Histogram();
        Result all = new Result();
        for (Caller caller : callers) {
            latencies.add(caller.took);
            all.allGranted += caller.allGranted;
            all.granted += caller.granted;
            all.decisions += caller.decisions;
            all.failed += caller.failed;
            all.error = caller.error == null ? all.error : caller.error;
        }
        all.latencies = latencies.counts;
        all.elapsedNanos = elapsedNanos;
        all.cpuNanos = cpuNanos;
        return all;
    }

    static class Result {
        long allGranted;
        long granted;
        long decisions;
        long failed;
        String error;
        long elapsedNanos;
        long cpuNanos;
        int[] latencies;
    }

    /** One call at a time: its own thread's, or a chain of asynchronous ones. */
    private final class Caller extends Result {
        private final Histogram took = new Histogram();

        void block() {
            while (!stopped) {
                boolean counted = counting;
                long start = System.nanoTime();
                Boolean got = null;
                Throwable thrown = null;
                try {
                    got = limiter().tryAcquire(permits);
                } catch (RuntimeException e) {
                    thrown = e;
                }
                done(counted, got, thrown, start);
            }
            running.countDown();
        }

        void next() {
            if (stopped) {
                running.countDown();
                return;
            }
            boolean counted = counting;
            long start = System.nanoTime();
            limiter().tryAcquireAsync(permits).whenComplete((got, thrown) -> {
                done(counted, got, thrown, start);
                next();
            });
        }

        private RRateLimiter limiter() {
            return limiters[limiters.length == 1 ? 0 : ThreadLocalRandom.current().nextInt(limiters.length)];
        }

        private void done(boolean counted, Boolean got, Throwable thrown, long start) {
            boolean isGranted = thrown == null && Boolean.TRUE.equals(got);
            if (isGranted) {
                allGranted++;
            }
            if (!counted) {
                return;
            }
            took.add(System.nanoTime() - start);
            decisions++;
            if (thrown != null) {
                failed++;
                error = Main.innermost(thrown).toString();
            } else if (isGranted) {
                granted++;
            }
        }
    }

    /** Durations to within 1/64 of their size, up to 17 s: each power of two has 64 counts. */
    private static final class Histogram {
        private static final int STEPS_BITS = 6;
        private static final long LONGEST = (1L << 34) - 1;

        private final int[] counts = new int[29 << STEPS_BITS];

        void add(long nanos) {
            long n = Math.min(Math.max(nanos, 0), LONGEST);
            int shift = Math.max(0, Long.SIZE - Long.numberOfLeadingZeros(n) - STEPS_BITS - 1);
            counts[(shift << STEPS_BITS) + (int) (n >> shift)]++;
        }

        void add(Histogram other) {
            for (int i = 0; i < counts.length; i++) {
                counts[i] += other.counts[i];
            }
        }
    }
}
