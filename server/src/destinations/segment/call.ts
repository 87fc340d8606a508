import type { Event } from '../../model/event.ts';
import type { JsonObject } from '../../model/json.ts';
import { isClientLibrary } from '../../model/libraries.ts';
import { type Duration, isoTime, type Time } from '../../model/time.ts';

/** A call as it is passed on, with the time that its sender's clock was ahead when the client sent it. */
export interface PassedCall {
  readonly call: object;
  /** Negative where the clock was behind. */
  readonly ahead: Duration;
}

/** Channels that this server gives to calls that name none. */
const OWN_CHANNELS: readonly string[] = ['server', 'browser', 'mobile'];

/** An address of nobody: with any other, or none, the service would note the address of this server. */
const NO_ADDRESS = '0.0.0.0';

/**
 * The call that an event was made from, to be made once more at `now`. The service computes `timestamp` as
 * `receivedAt − (sentAt − originalTimestamp)`, as this server does. So `sentAt` is moved by the time that has
 * passed since the call arrived here: the result is the same there, whenever it gets the call.
 */
export function passedCall(event: Event, now: Time): PassedCall {
  const { channel, timestamp, originalTimestamp, receivedAt: _, sentAt: __, ...rest } = event;
  const said = Date.parse(originalTimestamp ?? '');
  const ahead = Number.isNaN(said) ? 0 : said - Date.parse(timestamp);
  const call = {
    ...rest,
    ...(OWN_CHANNELS.includes(channel) ? {} : { channel }),
    context: withAddress(event.context),
    timestamp: Number.isNaN(said) ? timestamp : originalTimestamp,
    sentAt: isoTime(now + ahead),
  };
  return { call, ahead };
}

function withAddress(context: JsonObject): JsonObject {
  const { ip } = context;
  const isKnown = ip !== undefined && ip !== null && ip !== '';
  return isKnown || !isClientLibrary(context) ? context : { ...context, ip: NO_ADDRESS };
}
