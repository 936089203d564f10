package org.apache.flink.util;

/** Shaped like Flink's class of that name. */
public class AbstractID {
    protected final long upperPart;
    protected final long lowerPart;

    public AbstractID(long lowerPart, long upperPart) {
        this.lowerPart = lowerPart;
        this.upperPart = upperPart;
    }
}
