package io.github.rratelimiter.oracle;

/** The release of Redisson on the classpath has no such call. */
final class Unsupported extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Unsupported(String what) {
        super(what);
    }
}
