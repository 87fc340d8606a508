/** What an event is called in a list. */
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

/** The tracked action, the page, the group, the traits that are set; the type where nothing else names it. */
export function eventTitle({ type, event, name, groupId, previousId, traits }: Nameable): string {
  if (type === 'group' && groupId !== undefined) return groupId;
  if (type === 'alias' && previousId !== undefined) return `was ${previousId}`;
  if (type === 'identify' && traits !== undefined && Object.keys(traits).length > 0) {
    return `sets ${Object.keys(traits).join(', ')}`;
  }
  return event || name || type;
}

/** Whose event it is. */
export function whoOf({ userId, anonymousId }: Pick<Nameable, 'userId' | 'anonymousId'>): string {
  if (userId !== undefined) return userId;
  return anonymousId === undefined ? '' : `anon ${anonymousId}`;
}
