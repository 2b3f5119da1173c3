package io.github.rratelimiter.oracle;

/** One line of input: a call with its arguments, or a load with the numbers that it needs. */
final class Request {
    /** An argument, by the name of its type. */
    record Argument(String type, String value) {
    }

    long id;
    long redisson;
    String call;
    /** That of a new instance, as Redisson's YAML. */
    String config;
    String limiter;
    Argument[] args = {};
    /** The answer is the name of the object after the call. */
    boolean nameAfter;
    long permits;
    long millis;
    int threads;
    /** How many limiters to use: {@link #limiter} is then the prefix of their names, and their numbers follow. */
    int limiters;
    boolean async;
    long acquireTimeoutMillis;
}
