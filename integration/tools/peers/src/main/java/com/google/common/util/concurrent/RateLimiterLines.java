package com.google.common.util.concurrent;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/**
 * One RateLimiter of Guava behind JSON lines: a request a line on stdin, its answer on stdout. It stands in Guava's package, since the
 * clock of a RateLimiter is to be had nowhere else.
 *
 * <p>Requests are {@code {"call":"create","rate":R,"burstSeconds":B}}, with {@code "warmUpMicros"} and {@code "coldFactor"} instead of
 * the burst, {@code {"call":"tryAcquire","at":MICROS,"permits":N}} and {@code {"call":"acquire",...}}, which answers the seconds that it
 * would have slept. Each answer has the permits that are stored after it. The program ends with its stdin.
 */
public final class RateLimiterLines {
    private RateLimiterLines() {
    }

    private static final class Request {
        String call;
        double rate;
        double burstSeconds;
        long warmUpMicros;
        double coldFactor;
        long at;
        int permits;
    }

    /** Its time is set. A caller that would sleep gets the duration instead. */
    private static final class Clock extends RateLimiter.SleepingStopwatch {
        private long now;

        @Override
        protected long readMicros() {
            return now;
        }

        @Override
        protected void sleepMicrosUninterruptibly(long micros) {
        }
    }

    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Gson gson = new Gson();
        Clock clock = new Clock();
        RateLimiter limiter = null;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Request q = gson.fromJson(line, Request.class);
            clock.now = q.at;
            JsonObject answer = new JsonObject();
            switch (q.call) {
                case "create":
                    limiter = create(q, clock);
                    break;
                case "tryAcquire":
                    answer.addProperty("granted", limiter.tryAcquire(q.permits));
                    break;
                case "acquire":
                    answer.addProperty("seconds", limiter.acquire(q.permits));
                    break;
                default:
                    throw new IllegalArgumentException("no such call: " + q.call);
            }
            answer.addProperty("stored", ((SmoothRateLimiter) limiter).storedPermits);
            answers.println(gson.toJson(answer));
            answers.flush();
        }
    }

    private static RateLimiter create(Request q, Clock clock) {
        if (q.warmUpMicros > 0) {
            return RateLimiter.create(q.rate, q.warmUpMicros, TimeUnit.MICROSECONDS, q.coldFactor, clock);
        }
        RateLimiter limiter = new SmoothRateLimiter.SmoothBursty(clock, q.burstSeconds);
        limiter.setRate(q.rate);
        return limiter;
    }
}
