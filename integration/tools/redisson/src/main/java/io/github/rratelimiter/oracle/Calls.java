package io.github.rratelimiter.oracle;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
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
    private static final String LIMITER_ARGS = "org.redisson.api.ratelimiter.RateLimiterArgs";

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

    private final RedissonClient redisson;

    /** Those that are running, by the name of their limiters. */
    private final Map<String, Bench> benches = new ConcurrentHashMap<>();

    Calls(RedissonClient redisson) {
        this.redisson = redisson;
    }

    JsonElement run(Request q) {
        if (q.call.startsWith("bench")) {
            return bench(q);
        }
        RRateLimiter limiter = redisson.getRateLimiter(q.limiter);
        if (q.call.equals("crowd")) {
            return Crowd.run(limiter, q);
        }
        Class<?>[] types = new Class<?>[q.args.length];
        Object[] values = new Object[q.args.length];
        for (int i = 0; i < q.args.length; i++) {
            Request.Argument argument = q.args[i];
            if (argument.type.equals("RateLimiterArgs")) {
                types[i] = Reflect.type(LIMITER_ARGS, q.call);
                values[i] = limiterArgs(types[i], argument.value.split(" "));
            } else {
                types[i] = TYPES.get(argument.type).type;
                values[i] = TYPES.get(argument.type).parse.apply(argument.value);
            }
        }
        Object result = Reflect.call(RRateLimiter.class, limiter, q.call, types, values);
        return q.nameAfter ? new JsonPrimitive(limiter.getName()) : result(result);
    }

    private JsonElement bench(Request q) {
        try {
            if (q.call.equals("benchStart")) {
                benches.put(q.limiter, Bench.start(redisson, q));
                return JsonNull.INSTANCE;
            }
            Bench bench = benches.get(q.limiter);
            if (bench == null) {
                throw new IllegalArgumentException("no benchmark of " + q.limiter + " is running");
            }
            if (q.call.equals("benchCount")) {
                bench.count(q.millis);
                return JsonNull.INSTANCE;
            }
            benches.remove(q.limiter);
            return bench.stop();
        } catch (InterruptedException e) {
            throw new IllegalStateException("interrupted while a benchmark was running", e);
        }
    }

    /** Of the type, the rate, the interval and the time to keep alive in milliseconds, 0 for none, and whether to keep the state. */
    private static Object limiterArgs(Class<?> api, String[] fields) {
        Object args = Reflect.call(api, null, "of", new Class<?>[] {RateType.class, long.class, Duration.class},
                RateType.valueOf(fields[0]), Long.valueOf(fields[1]), Duration.ofMillis(Long.parseLong(fields[2])));
        if (!fields[3].equals("0")) {
            args = Reflect.call(api, args, "keepAliveTime", new Class<?>[] {Duration.class},
                    Duration.ofMillis(Long.parseLong(fields[3])));
        }
        return Reflect.call(api, args, "keepState", new Class<?>[] {boolean.class}, Boolean.valueOf(fields[4]));
    }

    private static JsonElement result(Object value) {
        if (value == null) {
            return JsonNull.INSTANCE;
        }
        if (value instanceof Boolean) {
            return new JsonPrimitive((Boolean) value);
        }
        if (value instanceof Number) {
            return new JsonPrimitive((Number) value);
        }
        RateLimiterConfig config = (RateLimiterConfig) value;
        JsonObject answer = new JsonObject();
        answer.addProperty("type", config.getRateType() == null ? null : config.getRateType().name());
        answer.addProperty("rate", config.getRate());
        answer.addProperty("intervalMillis", config.getRateInterval());
        return answer;
    }
}
