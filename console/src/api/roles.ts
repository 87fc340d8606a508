import { useQuery } from '@tanstack/react-query';
import { type Session, sessionQuery } from './session.ts';

const RANKS: Readonly<Record<Session['role'], number>> = { viewer: 0, editor: 1, admin: 2 };

/** Whether the person who is signed in may do what this role may. What a person may not do has no button. */
export function useMay(role: Session['role']): boolean {
  const { data: session } = useQuery(sessionQuery);
  return session !== undefined && session !== null && RANKS[session.role] >= RANKS[role];
}
