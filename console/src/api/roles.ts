import { useQuery } from '@tanstack/react-query';
import { type Session, sessionQuery } from './session.ts';

const RANKS: Readonly<Record<Session['role'], number>> = { viewer: 0, editor: 1, admin: 2 };

/** Tells whether the signed-in person has the rights of a role. Actions beyond these rights get no button. */
export function useMay(role: Session['role']): boolean {
  const { data: session } = useQuery(sessionQuery);
  return session !== undefined && session !== null && RANKS[session.role] >= RANKS[role];
}
