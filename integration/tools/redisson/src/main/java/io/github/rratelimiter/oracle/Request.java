package io.github.rratelimiter.oracle;

/**
 * One line of input. A field that the call does not need is ignored; a field that it needs and that the line lacks is an
 * {@link IllegalArgumentException}, but for those whose absence means something.
 */
final class Request {
    long id;
    String call;
    String limiter;
    /** Absent: the form of the call that takes no permits. */
    Long permits;
    /** Absent: the form of the call that takes no timeout. */
    Long timeoutMillis;
    String type;
    Long rate;
    Long intervalMillis;
    /** Absent: the form of the call that takes no keepAlive, which every release has. */
    Long keepAliveMillis;
    boolean keepState;
    /** A duration, or for expireAt and where {@link #absolute} is set, Unix time. */
    Long millis;
    boolean absolute;
    String newName;
    boolean replace;
    Integer threads;
    /** How many limiters to use: {@link #limiter} is then the prefix of their names, and their numbers follow. */
    Integer limiters;
    boolean async;
    Long acquireTimeoutMillis;

    static <T> T need(T value, String field) {
        if (value == null) {
            throw new IllegalArgumentException("the request has no " + field);
        }
        return value;
    }
}
