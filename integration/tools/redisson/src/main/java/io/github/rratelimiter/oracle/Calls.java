package io.github.rratelimiter.oracle;

import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateIntervalUnit;
import org.redisson.api.RateLimiterConfig;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;

/** Turns a request into the one call of Redisson that it names. */
final class Calls {
    /** The types of arguments by their names in a request. */
    private static final Map<String, Type> TYPES = Map.of(
            "long", new Type(long.class, Long::valueOf),
            "String", new Type(String.class, text -> text),
            "Duration", new Type(Duration.class, text -> Duration.ofMillis(Long.parseLong(text))),
            "Instant", new Type(Instant.class, text -> Instant.ofEpochMilli(Long.parseLong(text))),
            "RateType", new Type(RateType.class, RateType::valueOf),
            "TimeUnit", new Type(TimeUnit.class, TimeUnit::valueOf),
            "RateIntervalUnit", new Type(RateIntervalUnit.class, RateIntervalUnit::valueOf));

    private record Type(Class<?> type, Function<String, Object> parse) {
    }

    private record Rate(RateType type, Long rate, Long intervalMillis) {
    }

    /** Those that are running, by the name of their limiters. */
    private final Map<String, Bench> benches = new ConcurrentHashMap<>();

    Object run(RedissonClient redisson, Request q) throws Exception {
        RRateLimiter limiter = redisson.getRateLimiter(q.limiter);
        switch (q.call) {
            case "crowd":
                return Crowd.run(limiter, q);
            case "benchStart":
                benches.put(q.limiter, Bench.start(redisson, q));
                return null;
            case "benchCount":
                benches.get(q.limiter).count(q.millis);
                return null;
            case "benchStop":
                return benches.remove(q.limiter).stop();
            default:
                Object result = call(limiter, q);
                return q.nameAfter ? limiter.getName() : result;
        }
    }

    private static Object call(RRateLimiter limiter, Request q) throws Exception {
        Class<?>[] types = new Class<?>[q.args.length];
        Object[] values = new Object[q.args.length];
        for (int i = 0; i < q.args.length; i++) {
            Request.Argument argument = q.args[i];
            if (argument.type().equals("RateLimiterArgs")) {
                types[i] = argsType(q.call);
                values[i] = limiterArgs(types[i], argument.value().split(" "));
            } else {
                types[i] = TYPES.get(argument.type()).type;
                values[i] = TYPES.get(argument.type()).parse.apply(argument.value());
            }
        }
        Object result = reflect(RRateLimiter.class, limiter, q.call, types, values);
        if (result instanceof RateLimiterConfig config) {
            return new Rate(config.getRateType(), config.getRate(), config.getRateInterval());
        }
        return result;
    }

    private static Class<?> argsType(String call) {
        try {
            return Class.forName("org.redisson.api.ratelimiter.RateLimiterArgs");
        } catch (ClassNotFoundException e) {
            throw new Main.Unsupported(call);
        }
    }

    /** Of the type, the rate, the interval and the time to keep alive in milliseconds, 0 for none, and whether to keep the state. */
    private static Object limiterArgs(Class<?> api, String[] fields) throws Exception {
        Object args = reflect(api, null, "of", new Class<?>[] {RateType.class, long.class, Duration.class},
                RateType.valueOf(fields[0]), Long.valueOf(fields[1]), Duration.ofMillis(Long.parseLong(fields[2])));
        if (!fields[3].equals("0")) {
            args = reflect(api, args, "keepAliveTime", new Class<?>[] {Duration.class},
                    Duration.ofMillis(Long.parseLong(fields[3])));
        }
        return reflect(api, args, "keepState", new Class<?>[] {boolean.class}, Boolean.valueOf(fields[4]));
    }

    /** Calls the method of a public interface or class by its name, since some releases lack it. */
    private static Object reflect(Class<?> api, Object target, String name, Class<?>[] types, Object... args)
            throws IllegalAccessException, InvocationTargetException {
        try {
            return api.getMethod(name, types).invoke(target, args);
        } catch (NoSuchMethodException e) {
            throw new Main.Unsupported(name);
        }
    }
}
