/** Fields that name an event in a list. */
interface Nameable {
  readonly type: string;
  readonly event?: string;
  readonly name?: string;
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly groupId?: string;
  readonly previousId?: string;
  readonly traits?: Readonly<Record<string, unknown>>;
}

/**
 * Title of an event: the tracked action, the page, the group, or the traits that are set; otherwise its type.
 */
export function eventTitle({ type, event, name, groupId, previousId, traits }: Nameable): string {
  if (type === 'group' && groupId !== undefined) return groupId;
  if (type === 'alias' && previousId !== undefined) return `was ${previousId}`;
  if (type === 'identify' && traits !== undefined && Object.keys(traits).length > 0) {
    return `sets ${Object.keys(traits).join(', ')}`;
  }
  return event || name || type;
}

/** The id of the event's user. */
export function whoOf({ userId, anonymousId }: Pick<Nameable, 'userId' | 'anonymousId'>): string {
  if (userId !== undefined) return userId;
  return anonymousId === undefined ? '' : `anon ${anonymousId}`;
}
