package io.github.rratelimiter.oracle;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RedissonClient;

/** As many decisions as Redisson can make, and how long each took. */
final class Bench {
    private final RRateLimiter[] limiters;
    private final long permits;
    private final long deadlineNanos;

    private Bench(RRateLimiter[] limiters, long permits, long deadlineNanos) {
        this.limiters = limiters;
        this.permits = permits;
        this.deadlineNanos = deadlineNanos;
    }

    static JsonElement run(RedissonClient redisson, Request q) throws InterruptedException {
        RRateLimiter[] limiters = new RRateLimiter[Request.need(q.limiters, "limiters")];
        for (int i = 0; i < limiters.length; i++) {
            limiters[i] = redisson.getRateLimiter(q.limiter + i);
        }
        int count = Request.need(q.threads, "threads");
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

        long cpu = system.getProcessCpuTime();
        long start = System.nanoTime();
        Bench bench = new Bench(limiters, Request.need(q.permits, "permits"), start + Request.need(q.millis, "millis") * 1_000_000);
        CountDownLatch running = new CountDownLatch(count);
        List<Caller> callers = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Caller caller = bench.new Caller(running);
            callers.add(caller);
            if (q.async) {
                caller.next();
            } else {
                Thread thread = new Thread(caller::block, "bench-" + i);
                thread.setDaemon(true);
                thread.start();
            }
        }
        running.await();
        return answer(callers, System.nanoTime() - start, system.getProcessCpuTime() - cpu);
    }

    /** One call at a time: its own thread's, or a chain of asynchronous ones. */
    private final class Caller {
        private final CountDownLatch running;
        private final Histogram latencies = new Histogram();
        private long granted;
        private long decisions;
        private long failed;
        private String error;

        Caller(CountDownLatch running) {
            this.running = running;
        }

        void block() {
            while (System.nanoTime() < deadlineNanos) {
                long start = System.nanoTime();
                Boolean got = null;
                Throwable thrown = null;
                try {
                    got = limiter().tryAcquire(permits);
                } catch (RuntimeException e) {
                    thrown = e;
                }
                count(got, thrown, start);
            }
            running.countDown();
        }

        void next() {
            if (System.nanoTime() >= deadlineNanos) {
                running.countDown();
                return;
            }
            long start = System.nanoTime();
            limiter().tryAcquireAsync(permits).whenComplete((got, thrown) -> {
                count(got, thrown, start);
                next();
            });
        }

        private RRateLimiter limiter() {
            return limiters[limiters.length == 1 ? 0 : ThreadLocalRandom.current().nextInt(limiters.length)];
        }

        private void count(Boolean got, Throwable thrown, long start) {
            latencies.add(System.nanoTime() - start);
            decisions++;
            if (thrown != null) {
                failed++;
                error = Main.innermost(thrown).toString();
            } else if (Boolean.TRUE.equals(got)) {
                granted++;
            }
        }
    }

    private static JsonElement answer(List<Caller> callers, long elapsedNanos, long cpuNanos) {
        Histogram latencies = new Histogram();
        long granted = 0;
        long decisions = 0;
        long failed = 0;
        String error = "";
        for (Caller caller : callers) {
            latencies.add(caller.latencies);
            granted += caller.granted;
            decisions += caller.decisions;
            failed += caller.failed;
            error = caller.error == null ? error : caller.error;
        }
        JsonArray counts = new JsonArray();
        for (int n : latencies.counts) {
            counts.add(new JsonPrimitive(n));
        }
        JsonObject answer = new JsonObject();
        answer.addProperty("decisions", decisions);
        answer.addProperty("granted", granted);
        answer.addProperty("failed", failed);
        answer.addProperty("error", error);
        answer.addProperty("elapsedNanos", elapsedNanos);
        answer.addProperty("cpuNanos", cpuNanos);
        answer.add("latencies", counts);
        return answer;
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
