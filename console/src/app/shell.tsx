import { useQuery } from '@tanstack/react-query';
import { Link, Outlet, useNavigate, useRouter, useRouterState } from '@tanstack/react-router';
import { type ComponentType, useEffect, useRef, useState } from 'react';
import { type Status, statusQuery } from '../api/queries.ts';
import { sessionQuery } from '../api/session.ts';
import { isTroubled } from '../features/destinations/destination-state.tsx';
import { duration } from '../ui/format.ts';
import { Icon, type IconName } from '../ui/icons.tsx';
import { useShortcut } from '../ui/shortcuts.ts';
import { useNow } from '../ui/time.tsx';
import { Toaster } from '../ui/toast.tsx';
import { TopBar } from './top-bar.tsx';
import './shell.css';

const SECTIONS = [
  { to: '/', label: 'Overview', icon: 'overview', key: 'o' },
  { to: '/live', label: 'Live', icon: 'live', key: 'l' },
  { to: '/events', label: 'Events', icon: 'events', key: 'e' },
  { to: '/destinations', label: 'Destinations', short: 'Destin.', icon: 'destinations', key: 'd' },
  { to: '/sources', label: 'Sources', icon: 'sources', key: 's' },
  { to: '/users', label: 'Users', icon: 'users', key: 'u' },
  { to: '/settings', label: 'Settings', icon: 'settings', key: ',' },
] as const satisfies readonly {
  to: string;
  label: string;
  short?: string;
  icon: IconName;
  key: string;
}[];

/** The frame of every page: sections at the left, the state of the whole at the top. */
export function AppShell() {
  const [isSearching, setIsSearching] = useState(false);
  const [isHelping, setIsHelping] = useState(false);
  const Palette = useLoaded(loadPalette, isSearching, () => setIsSearching(false));
  const ShortcutHelp = useLoaded(loadShortcutHelp, isHelping, () => setIsHelping(false));
  useShortcut('mod+k', 'Search or jump', () => setIsSearching(true));
  useShortcut('?', 'These keys', () => setIsHelping(true));
  useSignOutWhenSessionEnds();
  useFocusOnNewPage();
  return (
    <div className="app">
      <a className="skip-link" href="#contents">
        Skip to contents
      </a>
      <Rail />
      <TopBar onSearch={() => setIsSearching(true)} />
      <main id="contents" tabIndex={-1}>
        <Outlet />
      </main>
      <Toaster />
      {isSearching && Palette !== undefined && <Palette onClose={() => setIsSearching(false)} />}
      {isHelping && ShortcutHelp !== undefined && <ShortcutHelp onClose={() => setIsHelping(false)} />}
    </div>
  );
}

type DialogPart = ComponentType<{ readonly onClose: () => void }>;

const loadPalette = async (): Promise<DialogPart> => (await import('./palette.tsx')).Palette;
const loadShortcutHelp = async (): Promise<DialogPart> => (await import('./shortcut-help.tsx')).ShortcutHelp;

/**
 * Loads the code of a dialog after the page, so that the dialog opens although the server has gone away
 * since. If loading fails, the page stays as it is, and the next press tries again.
 */
function useLoaded(load: () => Promise<DialogPart>, isWanted: boolean, onFailure: () => void) {
  const [loaded, setLoaded] = useState<{ readonly part: DialogPart }>();
  const isMissing = loaded === undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the handler is another one at each rendering, and does the same.
  useEffect(() => {
    if (!isMissing) return;
    load().then((part) => setLoaded({ part }), onFailure);
  }, [load, isMissing, isWanted]);
  return loaded?.part;
}

/** Shown instead of the shell until the server has said who is signed in. */
export function StartingShell() {
  return (
    <div className="starting" aria-busy="true">
      <Icon name="logo" />
      <p role="status">Waiting for the server…</p>
    </div>
  );
}

function Rail() {
  const { data: status } = useQuery(statusQuery);
  const troubled = Object.values(status?.lanes ?? {}).filter(isTroubled).length;
  return (
    <nav className="rail" aria-label="Sections">
      <Link to="/" className="brand">
        <Icon name="logo" />
        <span className="w">millrace</span>
      </Link>
      <ul>
        {SECTIONS.map((section) => (
          <li key={section.to}>
            <SectionLink section={section} count={section.to === '/destinations' ? troubled : 0} />
          </li>
        ))}
      </ul>
      <ServerFoot status={status} />
    </nav>
  );
}

interface SectionLinkProps {
  readonly section: (typeof SECTIONS)[number];
  /** Number of problems that need a person there. */
  readonly count: number;
}

function SectionLink({ section, count }: SectionLinkProps) {
  const { to, label, icon, key } = section;
  const navigate = useNavigate();
  useShortcut(`g ${key}`, label, () => void navigate({ to }));
  return (
    <Link
      to={to}
      title={label}
      activeOptions={{ exact: to === '/', includeSearch: false }}
      activeProps={{ 'aria-current': 'page' }}
    >
      <Icon name={icon} />
      <span className="w" data-s={'short' in section ? section.short : undefined}>
        <span>{label}</span>
      </span>
      {count > 0 && (
        <span className="rail-count bad" title={`${count} failing`}>
          {count}
          <span className="sr"> failing</span>
        </span>
      )}
    </Link>
  );
}

/** Shows version, uptime and disk use, and links to the page with more. */
function ServerFoot({ status }: { readonly status: Status | undefined }) {
  const now = useNow(10_000);
  if (status === undefined) return <div className="foot" />;
  const { version, nodeVersion, startedAt, disk } = status;
  const full = disk === undefined ? '' : ` · disk ${Math.round((1 - disk.free / disk.size) * 100)} %`;
  return (
    <Link to="/settings/system" className="foot">
      <span>
        v{version} · Node {nodeVersion.replace(/\.\d+$/, '')}
      </span>
      <span>
        Up {duration(Math.max(1000, now - Date.parse(startedAt)))}
        {full}
      </span>
    </Link>
  );
}

/** Opens the sign-in page when any answer of the server says that the session has ended. */
function useSignOutWhenSessionEnds(): void {
  const { data: session } = useQuery(sessionQuery);
  const router = useRouter();
  useEffect(() => {
    if (session === null) void router.invalidate();
  }, [session, router]);
}

/**
 * Moves the focus to the title of a new page if the focused element is gone, such as a row that was opened
 * with Enter. Otherwise the next Tab would begin at the frame.
 */
function useFocusOnNewPage(): void {
  const path = useRouterState({ select: ({ resolvedLocation }) => resolvedLocation?.pathname });
  const before = useRef(path);
  useEffect(() => {
    const isFirst = before.current === undefined;
    before.current = path;
    if (isFirst || document.activeElement !== document.body) return;
    document.querySelector<HTMLElement>('#contents h1')?.focus({ preventScroll: true });
  }, [path]);
}
