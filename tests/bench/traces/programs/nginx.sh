# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# An nginx of one's own, for the traces "webserver" and "idle". Sourced; it touches nothing of the
# system's nginx.

# start_nginx WORK PORT: serves WORK/site
start_nginx() {
    cat >"$1/nginx.conf" <<CONF
daemon off;
worker_processes 2;
pid $1/nginx.pid;
error_log $1/error.log;
events { worker_connections 256; }
http {
    access_log $1/access.log;
    sendfile on;
    client_body_temp_path $1/body;
    proxy_temp_path $1/proxy;
    fastcgi_temp_path $1/fastcgi;
    uwsgi_temp_path $1/uwsgi;
    scgi_temp_path $1/scgi;
    server { listen 127.0.0.1:$2; root $1/site; }
}
CONF
    nginx -c "$1/nginx.conf" -p "$1" &
    nginx_pid=$!
    until (: <"/dev/tcp/127.0.0.1/$2") 2>/dev/null; do sleep 0.1; done
}

stop_nginx() {
    kill -QUIT "$nginx_pid"
    wait "$nginx_pid"
}
