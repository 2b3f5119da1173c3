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
import org.redisson.api.RExpirable;
import org.redisson.api.RObject;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateIntervalUnit;
import org.redisson.api.RateLimiterConfig;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;

/** Turns a request into the one call of Redisson that it names. */
final class Calls {
    private static final String ARGS = "org.redisson.api.ratelimiter.RateLimiterArgs";

    private final RedissonClient redisson;

    /** Those that are running, by the name of their limiters. */
    private final Map<String, Bench> benches = new ConcurrentHashMap<>();

    Calls(RedissonClient redisson) {
        this.redisson = redisson;
    }

    JsonElement run(Request q) {
        Request.need(q.call, "call");
        if (q.call.equals("id")) {
            return new JsonPrimitive(redisson.getId());
        }
        if (q.call.startsWith("bench")) {
            return bench(q);
        }
        RRateLimiter limiter = redisson.getRateLimiter(Request.need(q.limiter, "limiter"));
        switch (q.call) {
            case "trySetRate":
                return result(trySetRate(limiter, q));
            case "setRate":
                return result(setRate(limiter, q));
            case "setRateArgs":
                return result(withArgs(limiter, "setRate", q));
            case "updateRate":
                return result(withArgs(limiter, "updateRate", q));
            case "getConfig":
                return config(limiter.getConfig());
            case "tryAcquire":
                return result(tryAcquire(limiter, q));
            case "acquire":
                return acquire(limiter, q);
            case "release":
                return result(Reflect.call(RRateLimiter.class, limiter, "release", new Class<?>[] {long.class},
                        Request.need(q.permits, "permits")));
            case "availablePermits":
                return result(limiter.availablePermits());
            case "crowd":
                return Crowd.run(limiter, q);
            case "expire":
                return result(limiter.expire(Request.need(q.millis, "millis"), TimeUnit.MILLISECONDS));
            case "expireAt":
                return result(limiter.expireAt(Request.need(q.millis, "millis")));
            case "expireIfSet":
            case "expireIfNotSet":
            case "expireIfGreater":
            case "expireIfLess":
                return result(expireIf(limiter, q));
            case "clearExpire":
                return result(limiter.clearExpire());
            case "remainTimeToLive":
                return result(limiter.remainTimeToLive());
            case "getExpireTime":
                return result(Reflect.call(RExpirable.class, limiter, "getExpireTime", new Class<?>[0]));
            case "isExists":
                return result(limiter.isExists());
            case "delete":
                return result(limiter.delete());
            case "unlink":
                return result(limiter.unlink());
            case "rename":
                limiter.rename(Request.need(q.newName, "newName"));
                return JsonNull.INSTANCE;
            case "renamenx":
                return result(limiter.renamenx(Request.need(q.newName, "newName")));
            case "renamedObject":
                if (q.replace) {
                    limiter.rename(Request.need(q.newName, "newName"));
                } else {
                    limiter.renamenx(Request.need(q.newName, "newName"));
                }
                return new JsonPrimitive(limiter.getName());
            case "copy":
                return result(Reflect.call(RObject.class, limiter, q.replace ? "copyAndReplace" : "copy", new Class<?>[] {String.class},
                        Request.need(q.newName, "newName")));
            case "touch":
                return result(limiter.touch());
            case "sizeInMemory":
                return result(limiter.sizeInMemory());
            default:
                throw new IllegalArgumentException("no such call: " + q.call);
        }
    }

    private JsonElement bench(Request q) {
        String name = Request.need(q.limiter, "limiter");
        try {
            if (q.call.equals("benchStart")) {
                benches.put(name, Bench.start(redisson, q));
                return JsonNull.INSTANCE;
            }
            Bench bench = benches.get(name);
            if (bench == null) {
                throw new IllegalArgumentException("no benchmark of " + name + " is running");
            }
            switch (q.call) {
                case "benchCount":
                    bench.count(Request.need(q.millis, "millis"));
                    return JsonNull.INSTANCE;
                case "benchStop":
                    benches.remove(name);
                    return bench.stop();
                default:
                    throw new IllegalArgumentException("no such call: " + q.call);
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException("interrupted while a benchmark was running", e);
        }
    }

    private static Object trySetRate(RRateLimiter limiter, Request q) {
        RateType type = type(q);
        long rate = Request.need(q.rate, "rate");
        long interval = Request.need(q.intervalMillis, "intervalMillis");
        if (q.keepAliveMillis == null) {
            return limiter.trySetRate(type, rate, interval, RateIntervalUnit.MILLISECONDS);
        }
        return Reflect.call(RRateLimiter.class, limiter, "trySetRate", withKeepAlive(), type, rate, Duration.ofMillis(interval),
                Duration.ofMillis(q.keepAliveMillis));
    }

    private static Object setRate(RRateLimiter limiter, Request q) {
        RateType type = type(q);
        long rate = Request.need(q.rate, "rate");
        long interval = Request.need(q.intervalMillis, "intervalMillis");
        if (q.keepAliveMillis == null) {
            limiter.setRate(type, rate, interval, RateIntervalUnit.MILLISECONDS);
            return null;
        }
        return Reflect.call(RRateLimiter.class, limiter, "setRate", withKeepAlive(), type, rate, Duration.ofMillis(interval),
                Duration.ofMillis(q.keepAliveMillis));
    }

    private static Class<?>[] withKeepAlive() {
        return new Class<?>[] {RateType.class, long.class, Duration.class, Duration.class};
    }

    private static Object withArgs(RRateLimiter limiter, String method, Request q) {
        Class<?> argsType = Reflect.type(ARGS, q.call);
        Object args = Reflect.call(argsType, null, "of", new Class<?>[] {RateType.class, long.class, Duration.class}, type(q),
                Request.need(q.rate, "rate"), Duration.ofMillis(Request.need(q.intervalMillis, "intervalMillis")));
        if (q.keepAliveMillis != null) {
            args = Reflect.call(argsType, args, "keepAliveTime", new Class<?>[] {Duration.class}, Duration.ofMillis(q.keepAliveMillis));
        }
        args = Reflect.call(argsType, args, "keepState", new Class<?>[] {boolean.class}, q.keepState);
        return Reflect.call(RRateLimiter.class, limiter, method, new Class<?>[] {argsType}, args);
    }

    private static RateType type(Request q) {
        return RateType.valueOf(Request.need(q.type, "type"));
    }

    private static boolean tryAcquire(RRateLimiter limiter, Request q) {
        if (q.timeoutMillis == null) {
            return q.permits == null ? limiter.tryAcquire() : limiter.tryAcquire(q.permits);
        }
        return q.permits == null
                ? limiter.tryAcquire(q.timeoutMillis, TimeUnit.MILLISECONDS)
                : limiter.tryAcquire(q.permits, q.timeoutMillis, TimeUnit.MILLISECONDS);
    }

    private static JsonElement acquire(RRateLimiter limiter, Request q) {
        if (q.permits == null) {
            limiter.acquire();
        } else {
            limiter.acquire(q.permits);
        }
        return JsonNull.INSTANCE;
    }

    private static Object expireIf(RRateLimiter limiter, Request q) {
        long millis = Request.need(q.millis, "millis");
        if (q.absolute) {
            return Reflect.call(RExpirable.class, limiter, q.call, new Class<?>[] {Instant.class}, Instant.ofEpochMilli(millis));
        }
        return Reflect.call(RExpirable.class, limiter, q.call, new Class<?>[] {Duration.class}, Duration.ofMillis(millis));
    }

    private static JsonElement config(RateLimiterConfig config) {
        JsonObject answer = new JsonObject();
        answer.addProperty("type", config.getRateType() == null ? null : config.getRateType().name());
        answer.addProperty("rate", config.getRate());
        answer.addProperty("intervalMillis", config.getRateInterval());
        return answer;
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
        throw new IllegalStateException("an answer of type " + value.getClass().getName());
    }
}
