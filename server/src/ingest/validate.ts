import type { Event } from '../model/event.ts';
import type { DiscardReason } from './reasons.ts';

/** An event while it is being made. */
export type Draft = { -readonly [Key in keyof Event]?: Event[Key] };

/**
 * What a call of this type needs and has not, if anything. Somebody it is about is needed by all; an alias may have an
 * anonymousId instead of the new userId. decisions.md section 1, "required".
 */
export function whatIsMissing(draft: Draft): DiscardReason | undefined {
  const anonymous = draft.userId === undefined && draft.anonymousId === undefined;
  switch (draft.type) {
    case 'alias':
      if (anonymous) return 'user_id_missing';
      return draft.previousId === undefined ? 'previous_id_missing' : undefined;
    case 'group':
      if (anonymous) return 'no_user_anon_id';
      return draft.groupId === undefined ? 'group_id_missing' : undefined;
    case 'track':
      if (anonymous) return 'no_user_anon_id';
      return draft.event === undefined ? 'event_not_defined' : undefined;
    default:
      return anonymous ? 'no_user_anon_id' : undefined;
  }
}
