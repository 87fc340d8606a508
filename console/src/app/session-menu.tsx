import { useQueryClient } from '@tanstack/react-query';
import { LogOut } from 'lucide-react';
import type { ReactElement } from 'react';
import { type Session, sessionQuery, signOut } from '../api/session.ts';
import { forgetForms } from '../editing/drafts.ts';
import { Menu, MenuItem } from '../ui/menu.tsx';
import { setPreferences, usePreferences } from '../ui/preferences.ts';

interface SessionMenuProps {
  readonly session: Session;
  /** The button that opens the menu. */
  readonly trigger: ReactElement;
}

/**
 * The menu of the signed-in person: name and role, the zone of times, and signing out. It is mounted open.
 */
export function SessionMenu({ session, trigger }: SessionMenuProps) {
  const { zone } = usePreferences();
  const queryClient = useQueryClient();
  const leave = async (): Promise<void> => {
    await signOut();
    forgetForms();
    queryClient.setQueryData(sessionQuery.queryKey, null);
  };
  return (
    <Menu isOpenAtFirst trigger={trigger}>
      <div className="menu-h">
        {session.name}
        <span className="dim">{session.role}</span>
      </div>
      <MenuItem onSelect={() => setPreferences({ zone: zone === 'utc' ? 'local' : 'utc' })}>
        {zone === 'utc' ? 'Show local times' : 'Show times in UTC'}
      </MenuItem>
      <MenuItem onSelect={() => void leave()}>
        <LogOut className="i" aria-hidden />
        Sign out
      </MenuItem>
    </Menu>
  );
}
