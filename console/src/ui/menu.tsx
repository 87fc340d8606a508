import { DropdownMenu } from 'radix-ui';
import type { ReactNode } from 'react';
import './menu.css';

interface MenuProps {
  /** The button that opens it. */
  readonly trigger: ReactNode;
  readonly children: ReactNode;
  /** True to open at once, for a menu that was loaded because somebody opened it. */
  readonly isOpenAtFirst?: boolean;
}

/**
 * Actions behind a button. Not modal: Radix locks scrolling with a style element, which the security policy
 * refuses.
 */
export function Menu({ trigger, children, isOpenAtFirst = false }: MenuProps) {
  return (
    <DropdownMenu.Root modal={false} defaultOpen={isOpenAtFirst}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="end" sideOffset={4}>
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

interface MenuItemProps {
  readonly onSelect: () => void;
  readonly isDangerous?: boolean;
  readonly disabled?: boolean;
  readonly children: ReactNode;
}

export function MenuItem({ onSelect, isDangerous = false, disabled = false, children }: MenuItemProps) {
  return (
    <DropdownMenu.Item
      className={`menu-i ${isDangerous ? 'bad' : ''}`}
      onSelect={onSelect}
      disabled={disabled}
    >
      {children}
    </DropdownMenu.Item>
  );
}
