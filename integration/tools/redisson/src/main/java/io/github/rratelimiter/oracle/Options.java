package io.github.rratelimiter.oracle;

import java.util.Arrays;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.BaseConfig;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

/** The program's arguments, as a Redisson configuration. */
final class Options {
    private static final int MIN_IDLE = 1;
    private static final int POOL = 32;
    private static final int SCAN_INTERVAL_MILLIS = 500;

    private String single;
    private String[] cluster;
    private String sentinelMaster;
    private String[] sentinels;
    private Integer timeoutMillis;
    private Integer retryAttempts;
    private boolean defaultPools;

    /** @throws IllegalArgumentException for arguments that name no target, or are unknown */
    static Options parse(String[] args) {
        Options o = new Options();
        int i = 0;
        while (i < args.length) {
            String flag = args[i++];
            switch (flag) {
                case "--single":
                    o.single = address(value(args, i++, flag));
                    break;
                case "--cluster":
                    o.cluster = addresses(value(args, i++, flag));
                    break;
                case "--sentinel":
                    o.sentinelMaster = value(args, i++, flag);
                    o.sentinels = addresses(value(args, i++, flag));
                    break;
                case "--timeout-millis":
                    o.timeoutMillis = Integer.valueOf(value(args, i++, flag));
                    break;
                case "--retry-attempts":
                    o.retryAttempts = Integer.valueOf(value(args, i++, flag));
                    break;
                case "--default-pools":
                    o.defaultPools = true;
                    break;
                default:
                    throw new IllegalArgumentException("unknown argument " + flag);
            }
        }
        int targets = (o.single == null ? 0 : 1) + (o.cluster == null ? 0 : 1) + (o.sentinels == null ? 0 : 1);
        if (targets != 1) {
            throw new IllegalArgumentException("want one of --single ADDR, --cluster ADDR,..., --sentinel MASTER ADDR,...");
        }
        return o;
    }

    private static String value(String[] args, int i, String flag) {
        if (i >= args.length) {
            throw new IllegalArgumentException(flag + " needs a value");
        }
        return args[i];
    }

    private static String[] addresses(String list) {
        return Arrays.stream(list.split(",")).map(Options::address).toArray(String[]::new);
    }

    private static String address(String text) {
        return text.contains("://") ? text : "redis://" + text;
    }

    Config config() {
        Config config = new Config();
        // A limiter never uses the codec; the default one of old releases needs libraries that fail on new JDKs.
        config.setCodec(StringCodec.INSTANCE);
        if (!defaultPools) {
            config.setThreads(4);
            config.setNettyThreads(4);
        }
        if (single != null) {
            SingleServerConfig server = config.useSingleServer();
            server.setAddress(single);
            if (!defaultPools) {
                server.setConnectionMinimumIdleSize(MIN_IDLE);
                server.setConnectionPoolSize(POOL);
                server.setSubscriptionConnectionMinimumIdleSize(MIN_IDLE);
                server.setSubscriptionConnectionPoolSize(POOL);
            }
            base(server);
        } else if (cluster != null) {
            ClusterServersConfig servers = config.useClusterServers();
            servers.addNodeAddress(cluster);
            servers.setScanInterval(SCAN_INTERVAL_MILLIS);
            masters(servers);
        } else {
            SentinelServersConfig servers = config.useSentinelServers();
            servers.setMasterName(sentinelMaster);
            servers.addSentinelAddress(sentinels);
            servers.setScanInterval(SCAN_INTERVAL_MILLIS);
            masters(servers);
        }
        return config;
    }

    private void masters(BaseMasterSlaveServersConfig<?> servers) {
        // Redisson reads from replicas by default: a test that reads what it has just written would be a race.
        servers.setReadMode(ReadMode.MASTER);
        servers.setMasterConnectionMinimumIdleSize(MIN_IDLE);
        servers.setMasterConnectionPoolSize(POOL);
        servers.setSlaveConnectionMinimumIdleSize(MIN_IDLE);
        servers.setSlaveConnectionPoolSize(POOL);
        servers.setSubscriptionConnectionMinimumIdleSize(MIN_IDLE);
        servers.setSubscriptionConnectionPoolSize(POOL);
        base(servers);
    }

    private void base(BaseConfig<?> servers) {
        if (timeoutMillis != null) {
            servers.setTimeout(timeoutMillis);
            servers.setConnectTimeout(timeoutMillis);
        }
        if (retryAttempts != null) {
            servers.setRetryAttempts(retryAttempts);
        }
    }
}
