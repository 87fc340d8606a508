import { MINUTE, type Time } from '../model/time.ts';
import type { ProfileId, Timer } from '../ports/profile-store.ts';

/**
 * Timers of profiles. A profile has a timer for the first minute in which passing time may change one of its values. Events move
 * that moment all the time, so a timer is set only if it is earlier than the one that the store keeps. One that is due may then
 * find that it is too early, and sets the next. After a downtime all timers that were missed are due at once.
 *
 * 0 stands for no timer.
 */

/** The minute of the timer that has to be set now; 0 when the one of `current` is early enough. */
function timerToSet(current: number, nextChange: Time | undefined): number {
  if (nextChange === undefined) return 0;
  const minute = Math.ceil(nextChange / MINUTE);
  return current === 0 || minute < current ? minute : 0;
}

/** The timer of a profile for the store, and the profile's note of it; undefined when none has to be set. */
export function setTimer(
  profile: { readonly id: ProfileId; timer: number },
  nextChange: Time | undefined,
): Timer | undefined {
  const minute = timerToSet(profile.timer, nextChange);
  if (minute === 0) return undefined;
  profile.timer = minute;
  return { minute, profile: profile.id };
}

/** Notes that a timer of a profile is due and goes. An older one, which an earlier one has replaced, is nothing to it. */
export function timerFired(profile: { timer: number }, { minute }: Timer): void {
  if (profile.timer === minute) profile.timer = 0;
}
