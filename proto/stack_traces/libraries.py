"""Lists of libraries, by the beginning of the names of their frames, for runtimes whose frames have no path.

The lists contain standard libraries, and frameworks that call the application or through which the application calls
itself. A library that is not listed counts as the application's code. Issues then become finer, never coarser.
"""

from typing import Final

_JVM = """
java javax jakarta jdk sun com.sun kotlin kotlinx scala groovy clojure nrepl ring android androidx com.android dalvik
libcore com.google.common com.google.gson com.google.android com.google.inject com.google.firebase com.google.cloud
com.google.api com.google.protobuf dagger rx io.reactivex reactor okhttp3 okio retrofit2 com.squareup
org.springframework org.apache org.eclipse org.hibernate org.junit junit org.mockito io.netty io.micrometer
io.opentelemetry io.undertow io.vertx io.quarkus io.smallrye io.micronaut io.grpc io.ktor io.javalin io.helidon
io.lettuce io.r2dbc io.projectreactor akka play cats zio fs2 monix org.http4s slick doobie com.zaxxer com.fasterxml
com.mysql org.mariadb org.postgresql org.h2 org.sqlite oracle com.mongodb redis.clients com.datastax org.jboss
org.wildfly org.xnio org.glassfish com.ibm weblogic org.slf4j ch.qos.logback lombok feign net.bytebuddy net.sf.cglib
org.aspectj javassist org.jooq org.ibatis org.mybatis com.netflix org.quartz org.thymeleaf freemarker org.gradle
org.scalatest com.intellij org.codehaus com.amazonaws software.amazon com.azure com.microsoft com.github.benmanes
com.alibaba.druid org.flywaydb liquibase org.jetbrains org.redisson org.elasticsearch com.hazelcast org.joda grails
"""
_JVM_STANDARD = """
java jdk sun com.sun kotlin kotlinx scala groovy clojure org.codehaus.groovy org.springframework.aop
org.springframework.cglib org.springframework.transaction.interceptor org.springframework.retry.interceptor
"""
_DOTNET = """
System Microsoft MS Npgsql Newtonsoft NUnit Xunit Dapper Polly Serilog MediatR AutoMapper FluentValidation MassTransit
Grpc Google.Apis Google.Cloud Google.Protobuf Amazon Azure StackExchange MySql MySqlConnector Oracle Hangfire
OpenTelemetry Autofac Castle Moq Quartz RabbitMQ MongoDB NHibernate NServiceBus Refit RestSharp Flurl Giraffe Suave
FSharp UnityEngine UnityEditor Mono Interop Internal DynamicClass
"""
_RUST = """
std core alloc test proc_macro backtrace backtrace_rs addr2line gimli tokio tokio_util hyper hyper_util axum axum_core
tower tower_http tower_service tower_layer actix actix_web actix_http actix_rt actix_server actix_service rocket warp
tide futures futures_util futures_core futures_executor rayon rayon_core tracing tracing_core tracing_subscriber h2
http tonic reqwest sqlx sqlx_core diesel serde serde_json anyhow eyre color_eyre thiserror crossbeam crossbeam_utils
async_std async_executor async_io async_global_executor mio rustls opentelemetry opentelemetry_sdk once_cell
parking_lot threadpool clap clap_builder log env_logger unwind libc compiler_builtins
"""
_ELIXIR = """
elixir stdlib kernel erts eex iex mix logger ex_unit compiler runtime_tools crypto ssl inets public_key mnesia phoenix
phoenix_html phoenix_live_view phoenix_pubsub phoenix_ecto phoenix_template plug plug_cowboy plug_crypto bandit
thousand_island cowboy cowlib ranch ecto ecto_sql db_connection postgrex myxql tds exqlite gen_stage flow broadway
oban absinthe absinthe_plug dataloader tesla finch mint nimble_pool nimble_options hackney req httpoison jason poison
telemetry telemetry_metrics opentelemetry opentelemetry_api opentelemetry_phoenix opentelemetry_ecto swoosh bamboo
commanded eventstore amqp redix grpc protobuf quantum cachex con_cache poolboy libcluster horde swarm ash spark
reactor gettext timex decimal
"""
_DART = """
flutter flutter_test flutter_bloc flutter_riverpod bloc riverpod provider get get_it dio http http_parser async
collection stack_trace test test_api stream_channel shelf shelf_router rxdart mobx flutter_mobx go_router auto_route
hive isar sqflite drift firebase_core cloud_firestore graphql grpc web_socket_channel retry pool source_span args
logging opentelemetry
"""
_NATIVE_IMAGES = """
libc. libc- libc++ libstdc++ libpthread libgcc libm. libdl ld-linux ld-musl libsystem libswift libdispatch libobjc
libdyld dyld libunwind libasan libclang_rt linux-vdso CoreFoundation Foundation UIKit AppKit SwiftUI GraphicsServices
QuartzCore CFNetwork Combine CoreData AttributeGraph HIToolbox XCTest libXCTest WebKit JavaScriptCore ntdll kernel32
KERNELBASE KERNEL32 ucrtbase VCRUNTIME MSVCP msvcrt
"""
_NATIVE_FUNCTIONS = """
std:: __gnu_cxx:: __cxxabi __cxa_ abort __abort raise __GI_ gsignal __libc_ _start __assert __pthread pthread_kill
start_thread clone boost:: __sanitizer __asan __interceptor Swift. swift_ _swift_ $ss $sS _assertionFailure _dispatch_
__kernel_ __clone fmt:: spdlog:: folly:: absl:: google:: grpc:: uv_
"""

# Of the standard libraries, and what stands between a call and a method that is called through a proxy.
JVM_STANDARD: Final = tuple(f"{name}." for name in _JVM_STANDARD.split())
JVM: Final = tuple(f"{name}." for name in _JVM.split())
DOTNET: Final = ("lambda_method", *(f"{name}." for name in _DOTNET.split()))
RUST: Final = frozenset(_RUST.split())
RUST_STANDARD: Final = frozenset(("std", "core", "alloc"))
RUST_SYMBOLS: Final = ("rust_", "_rust", "__rust", "___rust", "__libc_", "_start", "clone", "start_thread", "__pthread")
ELIXIR: Final = frozenset(_ELIXIR.split())
ELIXIR_STANDARD: Final = frozenset(("elixir", "stdlib", "kernel", "erts"))
DART: Final = frozenset(_DART.split())
# Names of the libraries and programs of a process in traces of Swift and C++, without directory.
NATIVE_IMAGES: Final = tuple(_NATIVE_IMAGES.split())
NATIVE_FUNCTIONS: Final = ("operator new", "void std::", *_NATIVE_FUNCTIONS.split())
