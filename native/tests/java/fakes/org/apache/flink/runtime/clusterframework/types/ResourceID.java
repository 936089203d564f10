package org.apache.flink.runtime.clusterframework.types;

/** Shaped like Flink's class of that name. */
public final class ResourceID {}
