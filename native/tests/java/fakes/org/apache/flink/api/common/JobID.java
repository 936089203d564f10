package org.apache.flink.api.common;

import org.apache.flink.util.AbstractID;

/** Shaped like Flink's class of that name. */
public final class JobID extends AbstractID {
    public JobID(long lowerPart, long upperPart) {
        super(lowerPart, upperPart);
    }
}
