package io.github.rratelimiter.oracle;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
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

    /** The arguments, as NAME=VALUE. */
    private final Map<String, String> values = new HashMap<>();
    private final boolean defaultPools;

    Options(String[] args) {
        for (String arg : args) {
            values.put(arg.substring(0, arg.indexOf('=')), arg.substring(arg.indexOf('=') + 1));
        }
        defaultPools = values.containsKey("default-pools");
    }

    private String[] addresses() {
        return Arrays.stream(values.get("addresses").split(",")).map(address -> "redis://" + address).toArray(String[]::new);
    }

    Config config() {
        Config config = new Config();
        // A limiter never uses the codec; the default one of old releases needs libraries that fail on new JDKs.
        config.setCodec(StringCodec.INSTANCE);
        if (!defaultPools) {
            config.setThreads(4);
            config.setNettyThreads(4);
        }
        if (values.get("servers").equals("single")) {
            SingleServerConfig server = config.useSingleServer();
            server.setAddress(addresses()[0]);
            if (!defaultPools) {
                server.setConnectionMinimumIdleSize(MIN_IDLE);
                server.setConnectionPoolSize(POOL);
                server.setSubscriptionConnectionMinimumIdleSize(MIN_IDLE);
                server.setSubscriptionConnectionPoolSize(POOL);
            }
            base(server);
        } else if (values.get("servers").equals("cluster")) {
            ClusterServersConfig servers = config.useClusterServers();
            servers.addNodeAddress(addresses());
            servers.setScanInterval(SCAN_INTERVAL_MILLIS);
            masters(servers);
        } else {
            SentinelServersConfig servers = config.useSentinelServers();
            servers.setMasterName(values.get("servers"));
            servers.addSentinelAddress(addresses());
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
        if (values.containsKey("timeout-millis")) {
            servers.setTimeout(Integer.parseInt(values.get("timeout-millis")));
            servers.setConnectTimeout(Integer.parseInt(values.get("timeout-millis")));
        }
        if (values.containsKey("retry-attempts")) {
            servers.setRetryAttempts(Integer.parseInt(values.get("retry-attempts")));
        }
    }
}
