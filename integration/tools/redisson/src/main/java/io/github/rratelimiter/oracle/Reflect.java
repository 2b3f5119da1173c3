package io.github.rratelimiter.oracle;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Calls of Redisson by their names, since some releases lack some of them. */
final class Reflect {
    private Reflect() {
    }

    /**
     * Calls the method of {@code api}, a public interface or class, on {@code target} (null for a static one).
     *
     * @throws Unsupported where this release has no such method
     */
    static Object call(Class<?> api, Object target, String name, Class<?>[] types, Object... args) {
        Method method;
        try {
            method = api.getMethod(name, types);
        } catch (NoSuchMethodException e) {
            throw new Unsupported(name);
        }
        try {
            return method.invoke(target, args);
        } catch (InvocationTargetException e) {
            throw rethrow(e.getCause());
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(method + " is not accessible", e);
        }
    }

    /** @throws Unsupported, naming {@code what}, where this release has no such class */
    static Class<?> type(String className, String what) {
        try {
            return Class.forName(className);
        } catch (ClassNotFoundException e) {
            throw new Unsupported(what);
        }
    }

    private static RuntimeException rethrow(Throwable thrown) {
        if (thrown instanceof Error) {
            throw (Error) thrown;
        }
        if (thrown instanceof RuntimeException) {
            return (RuntimeException) thrown;
        }
        return new IllegalStateException(thrown);
    }
}
