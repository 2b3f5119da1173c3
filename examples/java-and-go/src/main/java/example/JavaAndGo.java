package example;

import java.time.Duration;
import java.util.Scanner;
import org.redisson.Redisson;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.api.ratelimiter.RateLimiterArgs;
import org.redisson.config.Config;

/** Uses the limiter "paid-api", which main.go uses too. Reads commands: take N, release N, rate N. */
public class JavaAndGo {
    private static final Duration INTERVAL = Duration.ofSeconds(2);

    public static void main(String[] args) {
        Config config = new Config();
        config.useSingleServer().setAddress(args.length > 0 ? args[0] : "redis://localhost:6379");
        RedissonClient redisson = Redisson.create(config);

        RRateLimiter limiter = redisson.getRateLimiter("paid-api");
        limiter.trySetRate(RateType.OVERALL, 4, INTERVAL); // unless Go has set it

        Scanner commands = new Scanner(System.in);
        while (commands.hasNext()) {
            String command = commands.next();
            long permits = commands.nextLong();
            switch (command) {
                case "take" -> System.out.println(limiter.tryAcquire(permits) ? "granted" : "denied");
                case "release" -> {
                    limiter.release(permits);
                    System.out.println("released");
                }
                case "rate" -> {
                    limiter.updateRate(RateLimiterArgs.of(RateType.OVERALL, permits, INTERVAL).keepState(true));
                    System.out.println("set");
                }
                default -> System.out.println("unknown command: take N, release N or rate N");
            }
        }
        redisson.shutdown();
    }
}
